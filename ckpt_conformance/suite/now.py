"""What a worker says of the requirement that it is at, for the process that watches it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ckpt_conformance.suite.process import Reading, read_process

_NAME: Final = "now.json"
_ROOM: Final = 4000


@dataclass(frozen=True, slots=True)
class Now:
    """What a worker is doing.

    Attributes:
        pid: The worker's process.
        born: When that began; see `Reading`.
        turn: A number that no other block of the worker's has.
        item: The pytest node id of the requirement.
        seconds: How long the present block may take; 0 between two blocks.
        making: Whether the block makes the candidate.
    """

    pid: int
    born: int
    turn: int
    item: str
    seconds: float
    making: bool


class Saying:
    """The worker's side: a small file that is overwritten in one go.

    Args:
        folder: The worker's own folder.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / _NAME, os.O_WRONLY | os.O_CREAT, 0o600)
        self._turn = 0
        reading = read_process(os.getpid())
        self._born = 0 if reading is None else reading.born

    def say(self, item: str, seconds: float, *, making: bool = False) -> None:
        """Say what begins, and how long it may take; 0 where it has ended."""
        self._turn += 1
        now = Now(os.getpid(), self._born, self._turn, item[-_ROOM // 8 :], seconds, making)
        os.pwrite(self._file, json.dumps(asdict(now)).ljust(_ROOM).encode(), 0)


def read_now(folder: Path) -> Now | None:
    """What the worker of the folder said last; None where it said nothing yet."""
    with suppress(OSError, ValueError, TypeError):
        plain: Any = json.loads((folder / _NAME).read_text())
        return Now(**plain)
    return None


def process_of(now: Now) -> Reading | None:
    """A look at the process that said this; None where it has ended."""
    reading = read_process(now.pid)
    return reading if reading is not None and reading.born == now.born else None


def is_at(now: Now | None, item: str) -> bool:
    """Whether the worker had begun the requirement that has this node id."""
    return now is not None and item.endswith(now.item) and bool(now.item)
