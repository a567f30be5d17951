"""Watch the workers from outside, and end the one whose requirement takes too long or too much memory.

Nothing that a candidate does to its own process keeps this from working: it may hold the interpreter's lock,
swallow every exception, or replace every signal handler.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ckpt_conformance.suite.now import Now, process_of, read_now
from ckpt_conformance.suite.process import Reading, can_be_read, wants_to_run

GIB: Final = 1 << 30
DUMP: Final = getattr(signal, "SIGRTMIN", signal.SIGTERM) + 7
"""The signal on which a worker writes down its stacks and ends; one that nobody else uses."""
_PERIOD: Final = 0.1
_GRACE: Final = 2.0
"""How many seconds a worker gets to write its stacks."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a worker was ended.

    Attributes:
        item: The node id of the requirement that it was at.
        memory: How many bytes it held, where that was too much; 0 where the time was over.
    """

    item: str
    memory: int


@dataclass(slots=True)
class _Block:
    """How much of its time a block has had.

    Time counts when the process ran, or when it slept of its own accord; not while it waited for a processor.
    So a verdict does not depend on what else the machine has to do.
    """

    now: Now
    clock: float
    processor: float
    spent: float = 0.0

    def count(self, reading: Reading) -> None:
        """Count what has passed since the last look."""
        clock = time.monotonic()
        # a look that came late, since everything stood still, counts as one that came in time
        passed = min(clock - self.clock, 3 * _PERIOD)
        ran = min(reading.processor - self.processor, passed)
        self.spent += ran if wants_to_run(self.now.pid) else passed
        self.clock, self.processor = clock, reading.processor


class Watch:
    """Looks at every worker, ten times a second, from a thread of the process that reports.

    Args:
        folder: Where the workers have their folders.
        most_bytes: How much memory a worker may hold.
        own_groups: Whether each worker leads a process group: what it started ends with it.
    """

    def __init__(self, folder: Path, most_bytes: int, *, own_groups: bool = False) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._own_groups = own_groups
        self._buried: set[str] = set()
        self._blocks: dict[str, _Block] = {}
        self._ended: dict[str, Ended] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_again_and_again, daemon=True)

    def start(self) -> None:
        """Begin, where the system tells about other processes; safe to call twice."""
        if can_be_read() and self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """End; safe to call twice."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
            self._look_at_all()

    def why(self, worker: str) -> Ended | None:
        """Why a worker was ended; None where it died by itself."""
        return self._ended.get(worker)

    def end_all(self) -> None:
        """End every worker that still runs, whatever it is doing."""
        for folder in self._folder.iterdir():
            now = read_now(folder)
            if now is not None and process_of(now) is not None:
                with suppress(OSError):
                    os.kill(now.pid, signal.SIGKILL)
                self._bury(folder.name, now)

    def _look_again_and_again(self) -> None:
        while not self._over.wait(_PERIOD):
            self._look_at_all()

    def _look_at_all(self) -> None:
        with suppress(OSError):
            for folder in list(self._folder.iterdir()):
                self._look(folder)

    def _look(self, folder: Path) -> None:
        now = read_now(folder)
        if now is None or folder.name in self._buried:
            return
        reading = process_of(now)
        if reading is None:
            self._bury(folder.name, now)
            return
        if now.seconds <= 0 or folder.name in self._ended:
            return
        block = self._blocks.get(folder.name)
        if block is None or block.now != now:
            self._blocks[folder.name] = _Block(now, time.monotonic(), reading.processor)
        elif reading.memory > self._most_bytes:
            self._end(folder, Ended(now.item, reading.memory), now)
        else:
            block.count(reading)
            if block.spent >= now.seconds:
                self._end(folder, Ended(now.item, 0), now)

    def _bury(self, worker: str, now: Now) -> None:
        """End what a dead worker started: it may hold the pipe that tells everybody else of the death."""
        self._buried.add(worker)
        if self._own_groups:
            with suppress(OSError):
                os.killpg(now.pid, signal.SIGKILL)

    def _end(self, folder: Path, why: Ended, now: Now) -> None:
        self._ended[folder.name] = why
        for number, patience in ((DUMP, _GRACE), (signal.SIGKILL, _GRACE)):
            if read_now(folder) != now:
                # it ended by itself meanwhile, and the next one is not to pay for it
                break
            with suppress(OSError):
                os.kill(now.pid, number)
            if _has_ended(now, patience):
                return
        del self._ended[folder.name]


def _has_ended(now: Now, seconds: float) -> bool:
    """Whether the process ends within that time."""
    end = time.monotonic() + seconds
    while process_of(now) is not None:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
