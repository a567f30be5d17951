"""arguments: what goes into a region and comes out of it arrives as it was passed."""

from ckpt_conformance.standard.arguments import containers, given, returned

__all__ = ["containers", "given", "returned"]
