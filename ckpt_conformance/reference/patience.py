"""Locks that never stop a program for good."""

from __future__ import annotations

import threading

SECONDS = 5.0
"""How long a lock is waited for. Its holder may itself be waiting for this thread: for a collective that this
thread takes part in, or for a nested backward that this thread's device queue has to run."""


class patiently:  # noqa: N801, read as a word in `with patiently(lock)`
    """Hold the lock, or go on without it when it does not come free in time.

    A class, since every saved tensor passes here: a generator would cost more than what it guards.
    """

    __slots__ = ("_held", "_lock")

    def __init__(self, lock: threading.Lock | threading.RLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        self._held = self._lock.acquire(timeout=SECONDS)

    def __exit__(self, *_exception: object) -> None:
        if self._held:
            self._lock.release()
