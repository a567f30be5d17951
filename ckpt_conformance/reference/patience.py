"""Locks that never stop a program for good."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

SECONDS = 5.0
"""How long a lock is waited for. Its holder may itself be waiting for this thread: for a collective that this
thread takes part in, or for a nested backward that this thread's device queue has to run."""


@contextlib.contextmanager
def patiently(lock: threading.RLock) -> Iterator[None]:
    """Hold the lock, or go on without it when it does not come free in time."""
    held = lock.acquire(timeout=SECONDS)
    try:
        yield
    finally:
        if held:
            lock.release()
