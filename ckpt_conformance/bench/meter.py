"""Measure one step of a workload: time by the device's own clock, memory by its own allocator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch.profiler import ProfilerActivity, profile

from ckpt_conformance.bench.workloads import Workload
from ckpt_conformance.candidate import Candidate
from ckpt_conformance.instruments.memory import record_memory

_AHEAD = 2
"""Steps in the device's queue before the one that is measured."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of one step."""

    forward: float
    backward: float

    @property
    def step(self) -> float:
        """Forward and backward together."""
        return self.forward + self.backward


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes above the level before the step.

    Attributes:
        peak: The highest level during the step.
        kept: The level between forward and backward.
        floor: What is left when the step is over.
    """

    peak: int
    kept: int
    floor: int


@dataclass(frozen=True, slots=True)
class Work:
    """How often each region ran, in all, and how many kernels (CUDA) or operators (CPU) a step took."""

    region_runs: int
    kernels: int


def measure_times(workload: Workload, candidate: Candidate) -> Times:
    """Run a step under the clock; gradients are freed afterwards, off the clock.

    On CUDA two steps are queued before it, as in training: where the device is the slower of the two, the
    host has gone ahead, and what it needs for each region does not count.
    """
    on_cuda = workload.x.is_cuda
    for _ in range(_AHEAD if on_cuda else 0):
        workload.forward(candidate).backward()
        workload.zero_grad()
    clock = _cuda_clock if on_cuda else time.perf_counter
    marks = [clock()]
    loss = workload.forward(candidate)
    marks.append(clock())
    loss.backward()
    marks.append(clock())
    del loss
    workload.zero_grad()
    forward, backward = (_between(first, second) for first, second in pairwise(marks))
    return Times(forward, backward)


def _cuda_clock() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def _between(first: float | torch.cuda.Event, second: float | torch.cuda.Event) -> float:
    if isinstance(first, float) and isinstance(second, float):
        return 1000 * (second - first)
    assert isinstance(first, torch.cuda.Event)
    assert isinstance(second, torch.cuda.Event)
    second.synchronize()
    return float(first.elapsed_time(second))


def measure_memory(workload: Workload, candidate: Candidate) -> Memory:
    """Run one step with the allocator watched; nothing is collected.

    The gradients' memory is there before, as where several steps accumulate: what is measured is activations.
    """
    workload.forward(candidate).backward()
    with record_memory(workload.x.device) as timeline:
        loss = workload.forward(candidate)
        timeline.mark("forward over")
        loss.backward()
        del loss
    workload.zero_grad()
    return Memory(timeline.peak, timeline.until("forward over").net, timeline.net)


def measure_work(workload: Workload, candidate: Candidate) -> Work:
    """Run one step and count."""
    runs: list[None] = []
    on_cuda = workload.x.is_cuda
    activity = ProfilerActivity.CUDA if on_cuda else ProfilerActivity.CPU
    with profile(activities=[activity]) as recorder:
        workload.forward(candidate, lambda: runs.append(None)).backward()
        if on_cuda:
            torch.cuda.synchronize()
    workload.zero_grad()
    counted: Callable[[str], bool] = _is_kernel if on_cuda else (lambda name: name.startswith("aten::"))
    return Work(len(runs), sum(1 for event in recorder.events() or () if counted(event.name)))


def _is_kernel(name: str) -> bool:
    return not name.startswith(("cuda", "Memcpy", "Memset", "Activity Buffer"))
