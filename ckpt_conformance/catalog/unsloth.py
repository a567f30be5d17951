"""unsloth_zoo's gradient checkpointing: https://unsloth.ai/docs.

Tried with 2026.10.9. Its docstrings promise a drop-in for `torch.utils.checkpoint.checkpoint` that takes
keyword arguments; nothing is said of the random state. Three switches of its own turn off what needs a GPU.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from ckpt_conformance.candidate import Candidate

_WITHOUT_GPU = (
    "UNSLOTH_ZOO_DISABLE_GPU_INIT",
    "UNSLOTH_DISABLE_DOUBLE_BUFFER",
    "UNSLOTH_DISABLE_PINNED_MEMORY",
)


def unsloth() -> Candidate:
    """`unsloth_gradient_checkpoint(function, *args)`: the plain one."""
    return Candidate.from_function(
        _module().unsloth_gradient_checkpoint,
        name="unsloth",
        distribution="unsloth_zoo",
        capabilities={"kwargs"},
    )


def unsloth_offload() -> Candidate:
    """`Unsloth_Offloaded_Gradient_Checkpointer.apply(function, *args)`: offloads the first input."""
    return Candidate.from_function(
        _module().Unsloth_Offloaded_Gradient_Checkpointer.apply,
        name="unsloth-offload",
        distribution="unsloth_zoo",
    )


def unsloth_smart() -> Candidate:
    """`unsloth_checkpoint(function, *args)`: what `use_gradient_checkpointing="unsloth"` gives."""
    import torch

    module = _module()
    module.initialize_unsloth_gradient_checkpointing(torch.float32)
    return Candidate.from_function(
        module.unsloth_checkpoint,
        name="unsloth-smart",
        distribution="unsloth_zoo",
        capabilities={"kwargs", "rng"},
    )


def _module() -> Any:
    import torch

    if not torch.cuda.is_available():
        for switch in _WITHOUT_GPU:
            os.environ.setdefault(switch, "1")
    return importlib.import_module("unsloth_zoo.gradient_checkpointing")
