"""The death of a worker: which requirement it was at, why it died, and what becomes of that."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ckpt_conformance.report.model import Finding, Verdict
from ckpt_conformance.standard.registry import Requirement
from ckpt_conformance.suite.limits import Limits
from ckpt_conformance.suite.now import is_at, read_now
from ckpt_conformance.suite.watch import GIB, Ended

HUNG: Final = "hung.txt"
"""The file of a worker's folder for the stacks of one that was ended, or that ran out of time."""
DIED: Final = "died.txt"
"""The file for the stacks of one that crashed, and for its last words."""
_TIMEOUT: Final = "Timeout ("
"""How faulthandler begins what it writes when its own time is over."""
_OF_A_THREAD: Final = "(most recent call first):"
"""How it ends the line above a thread's stack."""
_MOST_LINES: Final = 60
_JUDGE: Final = str(Path(__file__).with_name("judge.py"))


def finding_of_a_death(
    requirement: Requirement, item: str, folder: Path, ended: Ended | None, limits: Limits
) -> Finding | None:
    """What the death of a worker means for the requirement that pytest says it was at.

    Args:
        requirement: The requirement.
        item: Its pytest node id.
        folder: The worker's folder.
        ended: Why the worker was ended; None where it died by itself.
        limits: What it was allowed.

    Returns:
        The finding; None where the worker had not begun the requirement, or was ended for another.
    """
    now = read_now(folder)
    if now is None or not is_at(now, item) or (ended is not None and not item.endswith(ended.item)):
        return None
    if ended is not None and ended.memory:
        return _too_large(requirement, ended.memory, limits.memory, _stack(folder / HUNG))
    if ended is not None or _timed_itself_out(folder):
        limit = limits.making if now.making else limits.requirement
        return _hung(requirement, limit, _stack(folder / HUNG))
    return _crashed(requirement, _stack(folder / DIED))


def _too_large(requirement: Requirement, memory: int, most: int, trace: list[str]) -> Finding:
    return Finding(
        requirement=requirement.id,
        level=requirement.level,
        verdict=Verdict.CRASHED,
        summary=f"the process grew past {most / GIB:g} GiB",
        expected=f"less than {most / GIB:g} GiB of memory (--memory-limit)",
        found=f"{memory / GIB:.1f} GiB, and the process was ended; the stacks tell where",
        trace=tuple(trace[:_MOST_LINES]),
    )


def _hung(requirement: Requirement, limit: float, trace: list[str]) -> Finding:
    return Finding(
        requirement=requirement.id,
        level=requirement.level,
        verdict=Verdict.HUNG,
        summary="the time limit passed",
        expected=f"an end within {limit:g} s",
        found=f"no end after {limit:g} s; the stacks tell where",
        seconds=limit,
        trace=tuple(trace[:_MOST_LINES]),
    )


def _crashed(requirement: Requirement, trace: list[str]) -> Finding:
    return Finding(
        requirement=requirement.id,
        level=requirement.level,
        verdict=Verdict.CRASHED,
        summary="the process died",
        expected="that the process survives",
        found=trace[0] if trace else "the process ended without a word, as os._exit() does",
        trace=tuple(trace[:_MOST_LINES]),
    )


def died_making(folder: Path) -> bool:
    """Whether the worker of the folder died while it made the candidate."""
    now = read_now(folder)
    return now is not None and now.making


def _timed_itself_out(folder: Path) -> bool:
    return any(line.startswith(_TIMEOUT) for line in _lines(folder / HUNG)[:1])


def _stack(file: Path) -> list[str]:
    """The stack of the requirement, with what faulthandler says above it.

    It comes as faulthandler writes it, innermost frame first, without our own frames and without the other
    threads; where no thread is in a requirement they are all there.
    """
    lines = _lines(file)
    headed = bool(lines) and not lines[0].endswith(_OF_A_THREAD)
    return lines[:headed] + _of_the_requirement(lines[headed:])


def _of_the_requirement(lines: list[str]) -> list[str]:
    for block in _blocks(lines):
        ours = next((number for number, line in enumerate(block) if _JUDGE in line), None)
        if ours is not None:
            return block[:ours]
    return lines


def _blocks(lines: list[str]) -> list[list[str]]:
    """The parts that empty lines set apart: one for each thread."""
    ends = [number for number, line in enumerate(lines) if not line] + [len(lines)]
    starts = [0, *(end + 1 for end in ends)]
    return [lines[start:end] for start, end in zip(starts, ends, strict=False)]


def _lines(path: Path) -> list[str]:
    try:
        with path.open(errors="replace") as file:
            return [line.rstrip() for line in file.read(100_000).splitlines()]
    except OSError:
        return []
