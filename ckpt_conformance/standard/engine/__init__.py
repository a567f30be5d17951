"""engine: what autograd's engine offers around and inside a region, from hooks to threads."""

from ckpt_conformance.standard.engine import calls, derivatives, hooks, saved_tensors, threads

__all__ = ["calls", "derivatives", "hooks", "saved_tensors", "threads"]
