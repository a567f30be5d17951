"""timm's checkpoint for sequences: https://huggingface.co/docs/timm/reference/models.

Tried with 1.0.31. One input; torch's non-reentrant version unless the user asks for the other. The operators
of torchvision are in a library that needs CUDA; where that cannot be loaded, the two that its import asks for
are declared here. No checkpoint uses them.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, Final

import torch

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.torch_checkpoint import CAPABILITIES

_OPERATORS: Final = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def timm() -> Candidate:
    """`timm.models.checkpoint_seq([function], x)`."""
    if not torch.cuda.is_available():
        _declare()
    importlib.import_module("timm.models")
    return Candidate.from_function(
        sequence, name="timm", distribution="timm", capabilities=CAPABILITIES - {"kwargs"}
    )


def sequence(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a region as a sequence of one."""
    from timm.models import checkpoint_seq

    return checkpoint_seq([fn], *args, **kwargs)


@cache
def _declare() -> Any:
    """The library of the two operators; cached, since it unregisters them when it is freed."""
    library: Any = torch.library.Library("torchvision", "FRAGMENT")
    for operator in _OPERATORS:
        library.define(operator)
    return library
