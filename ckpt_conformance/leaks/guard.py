"""The guard: a context manager for one's own training loop, which raises where each step keeps memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import torch

from ckpt_conformance.instruments.census import Census
from ckpt_conformance.instruments.growth import Growth, Trend, judge_growth
from ckpt_conformance.instruments.types import TypeGrowth, count_types, grown_types
from ckpt_conformance.leaks.baseline import compare, load_baseline
from ckpt_conformance.leaks.births import BirthLog
from ckpt_conformance.leaks.columns import Variants, run_columns
from ckpt_conformance.leaks.facts import Column
from ckpt_conformance.leaks.kinds import Found, find_leaks
from ckpt_conformance.leaks.model import Leak, LeakReport
from ckpt_conformance.leaks.passing import SHARE
from ckpt_conformance.leaks.retained import own_memory
from ckpt_conformance.leaks.surroundings import about, blind_spots, command
from ckpt_conformance.leaks.text import as_text
from ckpt_conformance.leaks.unexplained import unexplained
from ckpt_conformance.leaks.watch import StepWatch

QUANTITIES = ("tensors", "bytes", "nodes", "grad_bytes", "allocated")


class LeakError(AssertionError):
    """A step keeps memory; the message is the report as text.

    Attributes:
        report: The report as data.
    """

    def __init__(self, report: LeakReport, *, every: bool = False) -> None:
        super().__init__(as_text(report, every=every))
        self.report = report


class leak_guard:  # noqa: N801 - used like a function, as `contextlib.suppress` is
    """Watch the steps of a training loop, and raise `LeakError` on exit if they keep memory.

        with leak_guard(steps=6, warmup=2) as steps:
            for _ in steps:
                trainer.step(batch)

    The loop runs `steps` times. What grows at every step after the warm-up leaks; growth every k-th step is
    found where the steps cover three such periods. A step's graph that the next step frees is reported as
    late, and does not raise. The garbage collector rests meanwhile.

    Args:
        steps: How many steps to run, warm-up included.
        warmup: How many of the first steps may build caches and optimizer state.
        device: Count the tensors of this device alone, such as `"cuda"`; None counts all.
        baseline: A TOML file of known leaks, which do not raise.
        variants: The same step in other variants, by name, such as with no checkpointing: what each of them
            keeps is told next to what the loop keeps. They run where the loop leaks or is late.
        births: Whether to record where memory is made in the steps after growth was first seen.
        every: Write out all leaks in the error's message, not the ten largest alone.
        on_report: Called with the report before anything is raised.

    Raises:
        LeakError: On exit, where there is a leak that the baseline does not know.
        ValueError: Fewer than two steps to count after the warm-up, or a warm-up of none.
        RuntimeError: On exit, if the loop ran too few steps to tell.
    """

    def __init__(
        self,
        steps: int = 6,
        warmup: int = 2,
        device: torch.device | str | None = None,
        baseline: str | Path | None = None,
        *,
        variants: Variants | None = None,
        births: bool = True,
        every: bool = False,
        on_report: Callable[[LeakReport], None] | None = None,
    ) -> None:
        if warmup < 1 or steps < warmup + 2:
            raise ValueError(f"steps={steps}, warmup={warmup}: at least 1 step of warm-up and 2 after it")
        self.report: LeakReport | None = None
        self._steps = steps
        self._warmup = warmup
        self._device = None if device is None else torch.device(device)
        self._known = load_baseline(baseline) if baseline is not None else ()
        self._watch = StepWatch(self._device)
        self._variants = variants or {}
        self._records = births
        self._every = every
        self._on_report = on_report
        self._births = BirthLog()
        self._recording = contextlib.ExitStack()
        self._types: list[tuple[int, dict[str, int]]] = []
        self._seconds = 0.0

    def __enter__(self) -> Steps:
        self._watch.start()
        return Steps(self._steps, self._begin, self._observe)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._recording.close()
        self._watch.thaw()
        try:
            if kind is None:
                self._judge()
        finally:
            self._watch.stop()

    def _judge(self) -> None:
        seen = len(self._watch.censuses)
        if seen < self._warmup + 2:
            raise RuntimeError(f"the guard saw {seen} steps end, too few to tell; run all {self._steps}")
        self.report = self._judged()
        if self._on_report is not None:
            self._on_report(self.report)
        if self.report.new:
            raise LeakError(self.report, every=self._every)

    def _begin(self) -> None:
        """Record births in a step that follows a growing one, or in the last one where steps are late.

        Where nothing of that is seen, this costs nothing.
        """
        counted = self._watch.censuses[self._warmup - 1 :]
        if not self._records or len(counted) < 2:
            return
        is_last = len(self._watch.censuses) == self._steps - 1
        late = is_last and self._watch.passing.bytes >= SHARE * counted[-1].bytes
        if late or _grew(counted[-2], counted[-1]):
            self._recording.enter_context(self._births.recording(len(self._watch.censuses) + 1))

    def _observe(self) -> None:
        self._recording.close()
        began = time.perf_counter()
        if self._device is not None and self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._watch.observe(warming_up=len(self._watch.censuses) < self._warmup)
        self._count_types()
        self._seconds += time.perf_counter() - began

    def _count_types(self) -> None:
        """Count Python's types when growth is first seen, a step later, and after the last step.

        Between the first two counts objgraph is imported and births are first recorded, which fills caches
        of torch's and ours; so the types' growth is told from the second on. Where nothing grows, this costs
        nothing.
        """
        step, counted = len(self._watch.censuses), self._watch.censuses[self._warmup - 1 :]
        begins = not self._types and len(counted) > 1 and _grew(counted[-2], counted[-1], QUANTITIES)
        if begins or len(self._types) == 1 or (self._types and step == self._steps):
            self._types.append((step, count_types((self._watch, self._births, self._types))))

    def _judged(self) -> LeakReport:
        began = time.perf_counter()
        growth = self._growth()
        leaks, blind = self._leaks(growth)
        columns = self._columns() if leaks else ()
        report = LeakReport(
            steps=len(self._watch.censuses),
            warmup=self._warmup,
            device=str(self._device or "all"),
            growth=growth,
            types=self._grown_types(growth),
            leaks=leaks,
            notes=_notes(growth),
            command=command(),
            columns=columns,
            blind=(*blind, *blind_spots(self._device)),
            about=about(),
        )
        self._seconds += time.perf_counter() - began
        return compare(replace(report, seconds=self._seconds), self._known)

    def _growth(self) -> dict[str, Growth]:
        levels = {name: [getattr(one, name) for one in self._watch.censuses] for name in QUANTITIES}
        return {
            name: judge_growth(series, self._warmup) for name, series in levels.items() if None not in series
        }

    def _grown_types(self, growth: Mapping[str, Growth]) -> tuple[TypeGrowth, ...]:
        if len(self._types) < 3 or not any(one.leaks for one in growth.values()):
            return ()
        _, (first, before), (last, after) = self._types
        return grown_types(before, after, last - first)

    def _leaks(self, growth: Mapping[str, Growth]) -> tuple[tuple[Leak, ...], tuple[str, ...]]:
        """The leaks, and how much of the survivors was looked into."""
        grown = self._grown(growth)
        late, overlooked = self._late()
        lost = unexplained(growth, str(self._device or "all"), found=bool(grown.leaks))
        told = (grown.traced, late.traced, overlooked)
        return (*grown.leaks, *lost, *late.leaks), tuple(one for one in told if one)

    def _grown(self, growth: Mapping[str, Growth]) -> Found:
        if not any(one.leaks for one in growth.values()):
            return Found()
        # what the last step made may rightly live until the next one
        survivors = self._watch.survivors(self._warmup, len(self._watch.censuses))
        least = growth["bytes"].per_step
        if not survivors and least:
            survivors = self._watch.replaced(least)
        return find_leaks(survivors, self._births)

    def _late(self) -> tuple[Found, str]:
        """What each step passes on to the next, and what of it is too little to tell of."""
        survivors = self._watch.late(self._warmup)
        size = sum(size for _, size in own_memory(one for one, _ in survivors).values()) if survivors else 0
        least = SHARE * self._watch.censuses[-1].bytes
        found = find_leaks(survivors, self._births, late=True) if size >= least else Found()
        leaks = tuple(leak for leak in found.leaks if leak.bytes >= least)
        little = size - sum(leak.bytes for leak in leaks)
        if little <= 0:
            return replace(found, leaks=leaks), ""
        share = f"less than {SHARE:.0%} of what lives for each holder"
        told = f"late: {little} bytes of a step's graph are freed in the next step, {share}"
        return replace(found, leaks=leaks), told

    def _columns(self) -> tuple[Column, ...]:
        return run_columns(self._variants, self._steps, self._warmup, self._device)


def _grew(before: Census, after: Census, quantities: Iterable[str] = ("tensors", "bytes")) -> bool:
    return any((getattr(after, name) or 0) > (getattr(before, name) or 0) for name in quantities)


class Steps:
    """The steps of a guard, to run a loop over; counts from 0."""

    def __init__(self, number: int, begin: Callable[[], None], ended: Callable[[], None]) -> None:
        self._number = number
        self._begin = begin
        self._ended = ended

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[int]:
        for step in range(self._number):
            self._begin()
            yield step
            self._ended()


def _notes(growth: dict[str, Growth]) -> tuple[str, ...]:
    short = [name for name, one in growth.items() if one.trend is Trend.TOO_SHORT]
    if not short:
        return ()
    return (f"{', '.join(short)} grew too seldom to tell: run more steps to see whether it repeats",)
