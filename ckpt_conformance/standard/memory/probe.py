"""What the memory requirements share: a region of activations, and a bound with who is over it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ckpt_conformance.instruments.memory import MemoryTimeline
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab

ACTIVATION = 48 * 64 * 4
"""Bytes of one activation of the regions here: large beside the random state (5056 bytes) that is kept."""
STEPS = 8
"""How many activations a region saves plainly."""
SLACK = 24 * 1024
"""Bytes for what is no activation: random states, scalars, flags."""


def activation(lab: Lab) -> Tensor:
    """An input of `ACTIVATION` bytes, shape `[48, 64]`."""
    return lab.tensor(48, 64)


def steps(x: Tensor) -> Tensor:
    """Operations that save `STEPS` activations, each as large as the input."""
    for _ in range(STEPS // 2):
        x = x.sin().cos()
    return x


def at_peak(timeline: MemoryTimeline) -> tuple[str, ...]:
    """The blocks that lived at the peak: who held them then cannot be seen afterwards."""
    blocks = timeline.largest_at_peak()
    return tuple(f"at the peak: {number} blocks of {size} bytes" for number, size in blocks)


def expect_at_most(what: str, limit: int, found: int, trace: Callable[[], tuple[str, ...]]) -> None:
    """Report an amount over its limit, with what `trace` says of it."""
    if found > limit:
        violated(f"too much: {what}", expected=f"at most {limit}", found=found, trace=trace())
