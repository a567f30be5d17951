"""Whether the device still works: a kernel that read freed memory takes CUDA from the whole process."""

from __future__ import annotations

import torch


def settle(device: torch.device) -> None:
    """Wait for what was launched, so that whoever launched it is blamed for it.

    Raises:
        RuntimeError: A kernel failed. CUDA cannot be used in this process from then on.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def is_lost(device: torch.device) -> bool:
    """Whether CUDA cannot be used in this process any more."""
    try:
        settle(device)
    except RuntimeError:
        return True
    return False
