"""The side of the suite that runs requirements: a time limit that even a hung C function cannot escape."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pytest

from ckpt_conformance.suite.outcome import FINDING, to_plain

ATTRIBUTE: Final = "ckpt_finding"
"""The attribute of a test report that carries the finding."""
TIMEOUT: Final = "Timeout ("
"""How faulthandler begins what it writes when the time is over."""
HUNG: Final = "hung.txt"
DIED: Final = "died.txt"
_JUDGE: Final = str(Path(__file__).with_name("judge.py"))


class Worker:
    """A pytest plugin for the process in which requirements run.

    Args:
        stacks: The folder for the stacks of a death, where this is a worker that may die and be replaced;
            None where it is the user's own process, which no time limit may end.
    """

    def __init__(self, stacks: Path | None) -> None:
        self._hung: IO[str] | None = None
        if stacks is not None:
            stacks.mkdir(exist_ok=True)
            self._hung = (stacks / HUNG).open("w")
            self._died = (stacks / DIED).open("w")
            faulthandler.enable(self._died)

    @contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """End this process if the block takes longer, with every thread's stack left in the folder.

        The watch is a thread of C: neither a hung extension that holds the interpreter's lock nor a candidate
        that swallows every exception keeps it from ending the process.
        """
        if self._hung is None:
            yield
            return
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._hung)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()

    def give_up(self, why: str) -> None:
        """End this process, which is of no more use, and let another take over; not the user's own."""
        if self._hung is not None:
            self._died.write(why + "\n")
            self._died.flush()
            os._exit(1)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the report carry the finding to whoever collects them."""
        report = yield
        if call.when == "call" and FINDING in item.stash:
            setattr(report, ATTRIBUTE, to_plain(item.stash[FINDING]))
        return report


def post_mortem(stacks: Path) -> tuple[bool, list[str]]:
    """Whether a dead worker was ended by its time limit, and the stack of the requirement in it.

    The stack comes as faulthandler writes it, innermost frame first, without our own frames and without the
    other threads; where no thread is in a requirement they are all there.
    """
    hung = _lines(stacks / HUNG)
    return (True, _of_the_requirement(hung)) if hung else (False, _of_the_requirement(_lines(stacks / DIED)))


def _of_the_requirement(lines: list[str]) -> list[str]:
    head = lines[:1]
    for block in _blocks(lines[1:]):
        ours = next((number for number, line in enumerate(block) if _JUDGE in line), None)
        if ours is not None:
            return head + block[:ours]
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
