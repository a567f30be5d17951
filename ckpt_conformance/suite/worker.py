"""The side of the suite that runs requirements: each within its limits, in a process that may die of it."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

import pytest

from ckpt_conformance.suite.deaths import DIED, HUNG
from ckpt_conformance.suite.now import Saying
from ckpt_conformance.suite.outcome import FINDING, to_plain
from ckpt_conformance.suite.process import can_be_read, die_with_the_parent
from ckpt_conformance.suite.watch import DUMP

ATTRIBUTE: Final = "ckpt_finding"
"""The attribute of a test report that carries the finding."""
_PATIENCE: Final = 15
"""So many times its limit may a block take by the clock on the wall, where somebody outside counts better."""
_ALONE: Final = 3
"""The same where nobody does."""
_TIDYING: Final = 60.0
"""How many seconds pytest may take to put a finished requirement away: objects of the candidate's go then."""


class Worker:
    """A pytest plugin for the process in which requirements run: the user's own, which nothing may end."""

    @contextmanager
    def limited(self, item: str, seconds: float, *, making: bool = False) -> Iterator[None]:
        """Run a block that may take so many seconds.

        Args:
            item: The pytest node id of the requirement.
            seconds: The limit; time in which the process waits for a processor does not count.
            making: Whether it makes the candidate, rather than holding it to the requirement.
        """
        del item, seconds, making
        yield

    def give_up(self, why: str) -> None:
        """End a process in which nothing more can be run, and let another take over."""

    def retire(self) -> None:
        """Let another process take over from the next requirement on."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let the report carry the finding to whoever collects them."""
        report = yield
        if call.when == "call" and FINDING in item.stash:
            setattr(report, ATTRIBUTE, to_plain(item.stash[FINDING]))
        return report


class MortalWorker(Worker):
    """A worker that may die and be replaced.

    Args:
        folder: For its stacks, and for what it says to the process that watches it.
        quiet: Whether nobody but us has to do with it: what the candidate prints is thrown away.
        replaceable: Whether another process can take over what this one has not begun.
    """

    def __init__(self, folder: Path, *, quiet: bool, replaceable: bool) -> None:
        folder.mkdir(exist_ok=True)
        self._pid = os.getpid()
        self._replaceable = replaceable
        self._spent = False
        self._saying = Saying(folder)
        self._hung = (folder / HUNG).open("w")
        self._died = (folder / DIED).open("w")
        faulthandler.enable(self._died)
        if can_be_read():
            faulthandler.register(DUMP, self._hung, all_threads=True, chain=True)
        die_with_the_parent()
        self._quiet = quiet
        if quiet:
            # a group of its own, so that what the candidate starts can be ended with it
            os.setpgid(0, 0)

    @contextmanager
    def limited(self, item: str, seconds: float, *, making: bool = False) -> Iterator[None]:
        """Run a block; end this process if it takes longer, with every thread's stack left in the folder.

        The process that watches ends it. Should that fail, a thread of C does: neither a hung extension that
        holds the interpreter's lock nor a candidate that swallows every exception keeps it from that.
        """
        if self._spent:
            # nothing was said yet, so that the requirement goes to another worker
            os._exit(0)
        self._limit(item, seconds, making=making)
        try:
            with _deaf_to_interrupts(), _output_thrown_away() if self._quiet else nullcontext():
                yield
        finally:
            if os.getpid() != self._pid:
                # a child that the candidate forked, and that came back
                os._exit(0)
            self._limit(item, _TIDYING)

    def _limit(self, item: str, seconds: float, *, making: bool = False) -> None:
        patience = _PATIENCE if can_be_read() else _ALONE
        self._saying.say(item, seconds, making=making)
        faulthandler.dump_traceback_later(seconds * patience, exit=True, file=self._hung)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Lift the limit when all is put away: from then on the worker waits for something to do."""
        done = yield
        faulthandler.cancel_dump_traceback_later()
        self._saying.say(item.nodeid, 0)
        return done

    def give_up(self, why: str) -> None:
        """End this process, whose requirement is to blame for that."""
        self._died.write(why + "\n")
        self._died.flush()
        os._exit(1)

    def retire(self) -> None:
        """Let another process take over from the next requirement on."""
        self._spent = self._replaceable


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Ignore SIGINT: a terminal sends it to every process, and the one that reports ends the others.

    Else a requirement that the user interrupts would look like a candidate that raises KeyboardInterrupt, and
    a candidate that sends itself the signal like a user who wants no more.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _output_thrown_away() -> Iterator[None]:
    """Give the candidate streams of its own: a flood would fill the memory or the disk; it may close them."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as own:  # noqa: PTH123 - a device, no path
        sys.stdout = sys.stderr = own
        _connect_to_nothing()
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            _connect_to_nothing()


def _connect_to_nothing() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    if nothing > 2:
        os.close(nothing)
