"""Step time and peak of a stack of GPT blocks under every candidate that is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ckpt_conformance import catalog
from ckpt_conformance.bench.run import Line, bench
from ckpt_conformance.bench.workloads import Size, make_workload
from ckpt_conformance.candidate import Candidate, CandidateError
from ckpt_conformance.resolve import resolve

NAMES = (
    "torch-reentrant", "torch-nonreentrant", "torch-nonreentrant-no-early-stop",
    "transformer-engine-reentrant", "transformer-engine-nonreentrant", "megatron", "megatron-discard",
    "reference-reentrant", "reference", "reference-discard",
)  # fmt: skip
SIZES = tuple(Size(4, hidden, 4096, 1, torch.bfloat16) for hidden in (2048, 4096))


@dataclass(frozen=True, slots=True)
class Step:
    """One stack: its size in words, and a line of the benchmark for each candidate."""

    size: str
    lines: tuple[Line, ...]


def measure_step(device: torch.device, *, sizes: tuple[Size, ...] = SIZES, rounds: int = 20) -> list[Step]:
    """Measure each stack under every candidate, the rounds of all candidates in turn."""
    candidates = list(installed(NAMES))
    return [
        Step(str(size), tuple(bench(candidates, make_workload("block", size, device), rounds=rounds)))
        for size in sizes
    ]


def installed(names: tuple[str, ...]) -> Iterator[Candidate]:
    """The candidates of these names that can be had here; what cannot is said on stderr."""
    for name in names:
        entry = catalog.find(name)
        if entry is not None and not entry.missing:
            try:
                yield resolve(name)
            except CandidateError as error:
                sys.stderr.write(f"left out: {error}\n")
