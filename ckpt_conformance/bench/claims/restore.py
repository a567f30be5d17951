"""Restoring a discarded output: `resize_` and copy against sharing the storage."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ckpt_conformance.reference import share_storage

MIB = 2**20
SIZES = (1, 24, 128, 1024, 4096)
"""MiB of one bfloat16 activation."""

Restore = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True, slots=True)
class Restored:
    """What one way of restoring cost at one size.

    Attributes:
        way: `resize and copy` or `share`.
        mib: The activation's size.
        microseconds: The median from the call until the device is done.
        quartiles: The first and third quartile of the same.
        extra_bytes: The peak above the level before the call.
        synchronises: Whether the call waits for the device.
    """

    way: str
    mib: int
    microseconds: float
    quartiles: tuple[float, float]
    extra_bytes: int
    synchronises: bool


def by_copy(destination: Tensor, source: Tensor) -> None:
    """Allocate the destination's storage again and copy the source into it."""
    with torch.no_grad():
        destination.untyped_storage().resize_(source.untyped_storage().nbytes())
        destination.copy_(source)


WAYS: dict[str, Restore] = {"resize and copy": by_copy, "share": share_storage}


def measure_restore(device: torch.device, sizes: Sequence[int] = SIZES, rounds: int = 50) -> list[Restored]:
    """Measure both ways at each size, in turn, so that both see the same machine."""
    found = []
    for mib in sizes:
        source = torch.ones(mib * MIB // 2, dtype=torch.bfloat16, device=device)
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(rounds + 5):
            for way, restore in WAYS.items():
                times[way].append(_timed(restore, source))
        found += [_line(way, mib, source, times[way][5:]) for way in WAYS]
        del source
        torch.cuda.empty_cache()
    return found


def _discarded(source: Tensor) -> Tensor:
    destination = torch.empty_like(source)
    destination.untyped_storage().resize_(0)
    return destination


def _timed(restore: Restore, source: Tensor) -> float:
    destination = _discarded(source)
    torch.cuda.synchronize()
    started = time.perf_counter()
    restore(destination, source)
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - started)


def _line(way: str, mib: int, source: Tensor, times: Sequence[float]) -> Restored:
    first, median, third = statistics.quantiles(times, n=4)
    return Restored(
        way, mib, median, (first, third), _extra(WAYS[way], source), _synchronises(WAYS[way], source)
    )


def _extra(restore: Restore, source: Tensor) -> int:
    destination = _discarded(source)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    restore(destination, source)
    return torch.cuda.max_memory_allocated() - before


def _synchronises(restore: Restore, source: Tensor) -> bool:
    destination = _discarded(source)
    torch.cuda.set_sync_debug_mode("error")
    try:
        restore(destination, source)
    except RuntimeError:
        return True
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return False
