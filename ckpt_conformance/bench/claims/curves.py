"""Loss curves: a small transformer with dropout, trained plainly and under each candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ckpt_conformance.bench.workloads import BlockLayer, Size, Workload
from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import seeded_module


@dataclass(frozen=True, slots=True)
class Curve:
    """How a candidate's losses compare with the plain run's.

    Attributes:
        candidate: Its name.
        steps: How many there were.
        equal: How many losses are equal bit by bit, counted from the start.
        last: The last loss.
        largest_gap: The largest difference.
    """

    candidate: str
    steps: int
    equal: int
    last: float
    largest_gap: float


class NoisyBlock(BlockLayer):
    """A block with dropout in its region."""

    def region(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, sequence, hidden) to (batch, sequence, 4 hidden)."""
        return nn.functional.dropout(super().region(x), 0.1)


def measure_curves(
    candidates: Sequence[Candidate], device: torch.device, *, size: Size | None = None, steps: int = 200
) -> list[Curve]:
    """Train from the same start under each candidate with deterministic kernels, and compare the losses."""
    shape = size or Size(layers=2, hidden=128, sequence=64, batch=4)
    was = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        plain = _losses(PLAIN, shape, device, steps)
        return [
            _compared(candidate.name, plain, _losses(candidate, shape, device, steps))
            for candidate in candidates
        ]
    finally:
        torch.use_deterministic_algorithms(was)


def _losses(candidate: Candidate, size: Size, device: torch.device, steps: int) -> list[float]:
    layers = [seeded_module(lambda: NoisyBlock(size.hidden), device, seed) for seed in range(size.layers)]
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    torch.manual_seed(7)
    losses = []
    for _ in range(steps):
        x = torch.randn(size.batch, size.sequence, size.hidden, device=device, requires_grad=True)
        # the layers are NoisyBlocks; seeded_module only promises modules
        loss = Workload("curve", tuple(layers), x).forward(candidate)  # type: ignore[arg-type]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def _compared(name: str, plain: Sequence[float], found: Sequence[float]) -> Curve:
    gaps = [abs(want - got) for want, got in zip(plain, found, strict=True)]
    equal = next((place for place, gap in enumerate(gaps) if gap), len(gaps))
    return Curve(name, len(gaps), equal, found[-1], max(gaps))
