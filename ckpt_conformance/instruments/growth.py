"""The growth rule: which series of measurements is a leak, and which only looks like one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class Trend(StrEnum):
    """What a series of levels, one after each step, comes to."""

    FLAT = "flat"
    SETTLED = "settled"
    GROWING = "growing"
    PERIODIC = "growing every k-th step"
    TOO_SHORT = "too short to tell"


@dataclass(frozen=True, slots=True)
class Growth:
    """The verdict on a series.

    Attributes:
        trend: What it comes to.
        per_step: Mean growth of a step over the steps counted; 0 where it does not leak.
        constant: Whether each period added the same amount: the strongest sign of a leak.
        period: Steps from one growth to the next; 1 where every step grows, 0 where none does.
        levels: The series, warm-up included.
        warmup: How many of the levels are warm-up.
    """

    trend: Trend
    per_step: float
    constant: bool
    period: int
    levels: tuple[int, ...]
    warmup: int

    @property
    def leaks(self) -> bool:
        """Whether it is a leak."""
        return self.trend in (Trend.GROWING, Trend.PERIODIC)


def judge_growth(levels: Sequence[int], warmup: int) -> Growth:
    """Apply the rule to the levels after each step.

    A quantity leaks if, after warm-up, it grows at every step, or at every k-th and stays in between, at
    least three times over: twice can be a coincidence, and is reported as too short to tell. It has settled
    if it stopped growing, for longer than it ever paused before.

    Args:
        levels: The level after each step, in order of time.
        warmup: How many of the first steps do not count.

    Raises:
        ValueError: No step is left to count, or `warmup` is less than one: growth needs a level to grow from.
    """
    if not 1 <= warmup < len(levels):
        raise ValueError(f"{len(levels)} steps with {warmup} of warm-up: at least one of each is needed")
    changes = [after - before for before, after in pairwise(levels[warmup - 1 :])]
    trend, period = _trend(changes)
    leaks = trend in (Trend.GROWING, Trend.PERIODIC)
    return Growth(
        trend=trend,
        per_step=sum(changes) / len(changes) if leaks else 0.0,
        constant=leaks and len({change for change in changes if change}) == 1,
        period=period if trend is not Trend.FLAT else 0,
        levels=tuple(levels),
        warmup=warmup,
    )


_REPEATS = 3
"""So many growths in a row, evenly spaced, are no coincidence."""


def _trend(changes: list[int]) -> tuple[Trend, int]:
    grown = [position for position, change in enumerate(changes) if change > 0]
    if not grown:
        return Trend.FLAT, 0
    if any(change < 0 for change in changes):
        return _falling_too(changes)
    gaps = {after - before for before, after in pairwise(grown)}
    if len(gaps) <= 1:
        return _even(grown, len(changes), gaps.pop() if gaps else 0)
    return _uneven(grown, len(changes))


def _even(grown: list[int], steps: int, gap: int) -> tuple[Trend, int]:
    """The trend of growth that came at even distances, `gap` steps apart; 0 where it came but once."""
    first, quiet = grown[0], steps - 1 - grown[-1]
    if gap and quiet >= gap:
        return Trend.SETTLED, 0
    if gap == 1 and first == 0 and len(grown) >= 2:
        return Trend.GROWING, 1
    if len(grown) >= _REPEATS and gap > first:
        return Trend.PERIODIC, gap
    if len(grown) == 1:
        return (Trend.SETTLED, 0) if quiet > first + 1 else (Trend.TOO_SHORT, 0)
    return Trend.TOO_SHORT, gap


def _uneven(grown: list[int], steps: int) -> tuple[Trend, int]:
    longest = max(after - before for before, after in pairwise(grown))
    quiet = steps - 1 - grown[-1]
    if quiet >= longest:
        return Trend.SETTLED, 0
    return (Trend.PERIODIC, longest) if len(grown) >= _REPEATS + 1 else (Trend.TOO_SHORT, longest)


def _falling_too(changes: list[int]) -> tuple[Trend, int]:
    """The trend where some steps freed memory: a leak only if each high and each low tops the one before."""
    levels = [sum(changes[:end]) for end in range(len(changes) + 1)]
    for period in range(2, len(changes) // _REPEATS + 1):
        if all(later > earlier for earlier, later in zip(levels, levels[period:], strict=False)):
            return Trend.PERIODIC, period
    return Trend.FLAT, 0
