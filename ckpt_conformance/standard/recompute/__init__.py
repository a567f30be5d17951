"""recompute: when the region's function runs again, how often, and what a different recompute comes to."""

from ckpt_conformance.standard.recompute import counts, mismatches, saved_tensors

__all__ = ["counts", "mismatches", "saved_tensors"]
