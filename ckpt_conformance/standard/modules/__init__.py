"""modules: what torch.nn modules bring along, such as modes, buffers, hooks and shared weights."""

from ckpt_conformance.standard.modules import modes, parts, wrapped

__all__ = ["modes", "parts", "wrapped"]
