"""pytorch-pfn-extras' checkpoint: https://github.com/pfnet/pytorch-pfn-extras.

Tried with 0.9.0. It takes modules and works as torch's reentrant version; beyond that it promises that the
running statistics of a batch normalization come out as after one forward.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from torch import nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.forwards import running

_MODULE = "pytorch_pfn_extras.utils.checkpoint"


def pfn_extras() -> Candidate:
    """`pytorch_pfn_extras.utils.checkpoint.checkpoint(module, *args)`."""
    importlib.import_module(_MODULE)
    return Candidate.from_wrapper(
        partial(running, _run), name="pfn-extras", distribution="pytorch-pfn-extras", capabilities={"rng"}
    )


def _run(module: nn.Module, *inputs: Any) -> Any:
    return importlib.import_module(_MODULE).checkpoint(module, *inputs)
