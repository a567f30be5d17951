"""retention: nothing outlives its use, seen with the garbage collector off."""

from ckpt_conformance.standard.retention import cycles, gradients, growth, lifetimes, unusual_ends

__all__ = ["cycles", "gradients", "growth", "lifetimes", "unusual_ends"]
