"""What the user's signals do to a run: end it early, with a report that says so; never break a file."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Final

_END: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What ends a run as Ctrl-C does: a request from outside, and a terminal that is closed."""


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the block as Ctrl-C does, by KeyboardInterrupt."""
    with _handled(_END, _interrupt):
        yield


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM for the moment that it takes to write a report."""
    with _handled((signal.SIGINT, *_END), signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    # one that is ignored from the start, as under nohup, stays ignored
    numbers = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
