"""VeOmni's `CheckpointFunction`, in place of torch's own: https://github.com/ByteDance-Seed/VeOmni.

Tried with 0.1.12 and transformers 5.9. It is torch's reentrant checkpoint with one step added for FSDP, and
takes modules and bound methods.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from torch import nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.forwards import running

_MODULE = "veomni.distributed.checkpoint"


def veomni() -> Candidate:
    """`CheckpointFunction.apply(module, preserve_rng_state, *args)`."""
    importlib.import_module(_MODULE)
    return Candidate.from_wrapper(
        partial(running, _run), name="veomni", distribution="veomni", capabilities={"rng"}
    )


def _run(module: nn.Module, *inputs: Any) -> Any:
    return importlib.import_module(_MODULE).CheckpointFunction.apply(module, True, *inputs)
