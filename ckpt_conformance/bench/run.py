"""Run the benchmark: every candidate beside the plain run and torch's, the rounds interleaved."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ckpt_conformance.bench.meter import Memory, Times, Work, measure_memory, measure_times, measure_work
from ckpt_conformance.bench.workloads import Workload
from ckpt_conformance.candidate import PLAIN, Candidate

WARM_UP = 3
"""Steps of each candidate before anything is measured: lazy first-use buffers, kernel choices."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds over the rounds: the median, and the spread from the first to the third quartile."""

    median: float
    spread: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Timing:
        """Summarise the rounds."""
        if len(values) < 2:
            return cls(values[0], 0.0)
        first, _, third = statistics.quantiles(values, n=4)
        return cls(statistics.median(values), third - first)


@dataclass(frozen=True, slots=True)
class Line:
    """What one candidate came to; `error` says why where it could not be measured."""

    candidate: str
    forward: Timing | None = None
    backward: Timing | None = None
    step: Timing | None = None
    memory: Memory | None = None
    work: Work | None = None
    error: str | None = None


def bench(
    candidates: Sequence[Candidate],
    workload: Workload,
    *,
    rounds: int = 20,
    progress: Callable[[str], None] = lambda _line: None,
) -> list[Line]:
    """Measure the plain run, then each candidate, on one workload.

    The rounds go through all candidates in turn, so that a machine that slows down slows them all.

    Args:
        candidates: What to measure; the plain run is added in front.
        workload: The stack of layers.
        rounds: How many timed steps each gets.
        progress: Called with a line now and then, and with an empty one at the end.

    Returns:
        One line a candidate, in order, the plain run first. One that raises gets its error and no figures.
    """
    everyone = (PLAIN, *(candidate for candidate in candidates if candidate is not PLAIN))
    errors = {candidate.name: _warm_up(candidate, workload, progress) for candidate in everyone}
    able = [candidate for candidate in everyone if errors[candidate.name] is None]
    times = _timed(able, workload, rounds, progress)
    lines = {
        candidate.name: _line(candidate, workload, times[candidate.name], progress) for candidate in able
    }
    progress("")
    return [
        lines.get(candidate.name) or Line(candidate.name, error=errors[candidate.name])
        for candidate in everyone
    ]


def _warm_up(candidate: Candidate, workload: Workload, progress: Callable[[str], None]) -> str | None:
    progress(f"warming up {candidate.name}")
    try:
        for _ in range(WARM_UP):
            measure_times(workload, candidate)
    except Exception as error:  # noqa: BLE001 - a candidate may raise anything; the others go on
        workload.zero_grad()
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return None


def _timed(
    candidates: Sequence[Candidate], workload: Workload, rounds: int, progress: Callable[[str], None]
) -> dict[str, list[Times]]:
    times: dict[str, list[Times]] = {candidate.name: [] for candidate in candidates}
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for candidate in candidates:
            times[candidate.name].append(measure_times(workload, candidate))
    return times


def _line(
    candidate: Candidate, workload: Workload, times: Sequence[Times], progress: Callable[[str], None]
) -> Line:
    progress(f"measuring the memory of {candidate.name}")
    if workload.x.is_cuda:
        torch.cuda.empty_cache()
    return Line(
        candidate.name,
        Timing.of([time.forward for time in times]),
        Timing.of([time.backward for time in times]),
        Timing.of([time.step for time in times]),
        measure_memory(workload, candidate),
        measure_work(workload, candidate),
    )
