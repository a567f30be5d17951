"""The memory timeline: every allocation and free of tensor memory, with its peak and floor in bytes.

On the CPU the events come from torch's profiler (`profile_memory`), which sees every block of torch's
allocator, those of tensors that Python never sees included; it does not see the free of a block that was
there before the recording began. On CUDA the caching allocator's own counters serve.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch
from torch.autograd import profiler

_MEMORY_EVENT = "[memory]"
_MARK = "ckpt_conformance.mark:"


@dataclass(slots=True)
class MemoryTimeline:
    """How the tensor memory of one device moved during a `record_memory` block, relative to its start.

    Filled in when the block ends; empty before.

    Attributes:
        steps: Bytes of each allocation (positive) and free (negative), in order of time. On CUDA, where the
            counters tell no single event, two steps for each stretch between marks: to its peak, to its end.
        marks: How many steps came before each mark.
        exact: Whether `steps` are single events.
    """

    steps: tuple[int, ...] = ()
    marks: dict[str, int] = field(default_factory=dict)
    exact: bool = True
    _note: Callable[[str], None] = field(default=lambda _name: None, repr=False)

    def mark(self, name: str) -> None:
        """Remember this moment of the recording, for `until` and `since`."""
        self._note(name)

    def until(self, mark: str) -> MemoryTimeline:
        """The timeline up to a mark."""
        return MemoryTimeline(self.steps[: self.marks[mark]], exact=self.exact)

    def since(self, mark: str) -> MemoryTimeline:
        """The timeline from a mark on, relative to the level there."""
        return MemoryTimeline(self.steps[self.marks[mark] :], exact=self.exact)

    @property
    def levels(self) -> tuple[int, ...]:
        """Bytes above (or below) the start after each step, the start included."""
        return tuple(accumulate(self.steps, initial=0))

    @property
    def peak(self) -> int:
        """The highest level in bytes; never negative."""
        return max(self.levels)

    @property
    def floor(self) -> int:
        """The lowest level in bytes; never positive."""
        return min(self.levels)

    @property
    def net(self) -> int:
        """The level in bytes at the end: what was left behind, or freed where negative."""
        return sum(self.steps)

    def largest_at_peak(self, most: int = 5) -> tuple[tuple[int, int], ...]:
        """The blocks made since the start that were there at the peak: how many, and of how many bytes.

        Blocks of one size are told together, those that take most first; none where single events are not
        known (CUDA).
        """
        upto = self.levels.index(self.peak)
        counts = Counter(self.steps[:upto]) if self.exact else Counter[int]()
        there = {size: counts[size] - counts[-size] for size in counts if size > 0}
        blocks = sorted(((number, size) for size, number in there.items() if number > 0), key=_weight)
        return tuple(blocks[:most])

    def blocks(self, nbytes: int) -> int:
        """How many blocks of exactly `nbytes` bytes were allocated.

        Raises:
            ValueError: The timeline knows no single events (CUDA).
        """
        if not self.exact:
            raise ValueError("the CUDA counters tell no single allocation; count blocks on the CPU")
        return self.steps.count(nbytes)


def _weight(block: tuple[int, int]) -> int:
    number, size = block
    return -number * size


@contextlib.contextmanager
def record_memory(device: torch.device | str = "cpu") -> Iterator[MemoryTimeline]:
    """Record the tensor memory of a device during a block.

    Nothing is collected. On the CPU it cannot be used inside another profiler.

    Raises:
        RuntimeError: A profiler runs already (CPU).
    """
    timeline = MemoryTimeline()
    on_cuda = torch.device(device).type == "cuda"
    with _record_cuda(timeline, device) if on_cuda else _record_cpu(timeline):
        yield timeline


@contextlib.contextmanager
def _record_cpu(timeline: MemoryTimeline) -> Iterator[None]:
    timeline._note = _mark_in_profile
    recorder = profiler.profile(profile_memory=True, use_kineto=True)
    with recorder:
        yield
    _read_profile(timeline, recorder)


def _mark_in_profile(name: str) -> None:
    """Leave an event, since only the profiler's own clock orders marks and allocations."""
    with profiler.record_function(_MARK + name):
        pass


def _read_profile(timeline: MemoryTimeline, recorder: profiler.profile) -> None:
    results: Any = recorder.kineto_results
    steps: list[int] = []
    for event in sorted(results.events(), key=lambda event: event.start_ns()):
        if event.name().startswith(_MARK):
            timeline.marks[event.name().removeprefix(_MARK)] = len(steps)
        elif event.name() == _MEMORY_EVENT and event.device_type().name == "CPU":
            steps.append(event.nbytes())
    timeline.steps = tuple(steps)


@contextlib.contextmanager
def _record_cuda(timeline: MemoryTimeline, device: torch.device | str) -> Iterator[None]:
    counters = _CudaCounters(device)

    def mark(name: str) -> None:
        counters.advance()
        timeline.marks[name] = len(counters.steps)

    timeline._note = mark
    yield
    counters.advance()
    timeline.steps, timeline.exact = tuple(counters.steps), False


class _CudaCounters:
    """The allocator's counters of requested bytes: `allocated_bytes` would count the rounding to 512 too."""

    def __init__(self, device: torch.device | str) -> None:
        self.device = device
        self.steps: list[int] = []
        torch.cuda.reset_peak_memory_stats(device)
        self.level = self._read("current")

    def advance(self) -> None:
        """Note the peak and the end of the stretch since the last call, and begin another."""
        peak, level = self._read("peak"), self._read("current")
        self.steps += [peak - self.level, level - peak]
        self.level = level
        torch.cuda.reset_peak_memory_stats(self.device)

    def _read(self, which: str) -> int:
        return int(torch.cuda.memory_stats(self.device)[f"requested_bytes.all.{which}"])
