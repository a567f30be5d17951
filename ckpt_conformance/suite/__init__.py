"""Running the standard: in this process, as pytest parameters, or as the module that pytest collects."""

from ckpt_conformance.suite.check import check_checkpoint
from ckpt_conformance.suite.parametrize import parametrize_with_checks

__all__ = ["check_checkpoint", "parametrize_with_checks"]
