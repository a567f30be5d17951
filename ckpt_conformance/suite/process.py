"""What another process is doing, as far as `/proc` tells: time, memory, whether it wants to run."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_DIES_WITH_ITS_PARENT: Final = 1
_ENDED: Final = frozenset("ZX")
_WAITING: Final = frozenset("RD")
"""The states of a thread that runs or waits for a processor or a disk: a busy machine makes them longer."""


def die_with_the_parent() -> None:
    """Have the kernel end this process when the one that started it dies; on Linux only."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIES_WITH_ITS_PARENT, signal.SIGKILL)


def can_be_read() -> bool:
    """Whether this system tells about other processes."""
    return (_PROC / str(os.getpid()) / "stat").exists()


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at a process.

    Attributes:
        born: When it began, in ticks since the machine did: another process may get its number later.
        processor: The seconds of processor time that all its threads have had.
        memory: The bytes of its own that lie in memory: no file, nothing that is shared.
    """

    born: int
    processor: float
    memory: int


def read_process(pid: int) -> Reading | None:
    """Look at a process; None where it has ended, or where nobody can tell."""
    with suppress(OSError, ValueError, IndexError):
        fields = _fields(_PROC / str(pid) / "stat")
        if fields[0] in _ENDED:
            return None
        resident, shared = (_PROC / str(pid) / "statm").read_text().split()[1:3]
        ticks = int(fields[11]) + int(fields[12])
        return Reading(
            born=int(fields[19]),
            processor=ticks / os.sysconf("SC_CLK_TCK"),
            memory=(int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE"),
        )
    return None


def wants_to_run(pid: int) -> bool:
    """Whether a thread of the process runs, or would if the machine let it."""
    with suppress(OSError):
        return any(_state(task) in _WAITING for task in (_PROC / str(pid) / "task").iterdir())
    return False


def _state(task: Path) -> str:
    with suppress(OSError, IndexError):
        return _fields(task / "stat")[0]
    return ""


def _fields(stat: Path) -> list[str]:
    """What comes after the name, which may hold anything, brackets and spaces included."""
    return stat.read_text(errors="replace").rpartition(")")[2].split()
