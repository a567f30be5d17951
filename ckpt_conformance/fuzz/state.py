"""The ambient state that a program is to leave as it was."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import torch

from ckpt_conformance.fuzz import prelude

PIECES: Final[Mapping[str, str]] = {
    "grad mode": "torch.is_grad_enabled()",
    "default dtype": "torch.get_default_dtype()",
    "autocast": "torch.is_autocast_enabled(DEVICE)",
    "autocast cache": "torch.is_autocast_cache_enabled()",
    # what a device context takes for the one around it
    "device": "torch.utils._device.CURRENT_DEVICE",
    "function modes": "torch._C._len_torch_function_stack()",
    "dispatch modes": "torch._C._len_torch_dispatch_stack()",
    "cuDNN benchmark": "torch._C._get_cudnn_benchmark()",
    "deterministic algorithms": "torch._C._get_deterministic_algorithms()",
    "warning filters": "len(warnings.filters)",
}
"""How each piece is read, in words that a stand-alone script can use."""

LEFT_CHANGED: Final = "the ambient state is left changed: "
"""What a difference in a piece is called, with the piece after it."""

_READ: Final = compile(f"({', '.join(PIECES.values())})", "<ambient state>", "eval")


def ambient_state() -> tuple[Any, ...]:
    """The pieces' values, in the order of `PIECES`."""
    names = {"torch": torch, "warnings": warnings, "DEVICE": prelude.DEVICE}
    values: tuple[Any, ...] = eval(_READ, names)  # noqa: S307 - the text is above
    return values
