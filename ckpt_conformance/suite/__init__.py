"""Running the standard: in this process, as pytest parameters, or as the module that pytest collects."""

from ckpt_conformance.suite.check import check_checkpoint

__all__ = ["check_checkpoint"]
