"""Turns at the default generators: one run of a region at a time, with the backwards that it starts."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch

from ..patience import patiently

_C: Any = torch._C
_LOCK = threading.Lock()
_KEY = "ckpt_conformance.reference.turn"


class _Turn:
    """One turn, as long as it lasts."""

    __slots__ = ("lasts",)

    def __init__(self) -> None:
        self.lasts = True


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Wait for a turn; within one this is the same turn, also in the threads of a backward.

    The default generators belong to the whole process, so two regions that draw at the same time in two
    threads would take numbers from one another. But a region that asks for a gradient waits for the engine,
    which runs that backward in a thread of its own on a GPU, and recomputes the regions in it there: they
    must not wait for the one that waits for them. Torch hands what is stashed here on to such threads.
    """
    if _C._is_key_in_tls(_KEY) and _C._get_obj_in_tls(_KEY).lasts:
        yield
        return
    with patiently(_LOCK):
        this = _Turn()
        _C._stash_obj_in_tls(_KEY, this)
        try:
            yield
        finally:
            this.lasts = False
            _forget()


def _forget() -> None:
    # an object that is still there when its thread ends can stop the process; before torch 2.13 none of
    # torch's own are taken away, and there is no function that does
    if hasattr(_C, "_remove_obj_from_tls"):
        _C._remove_obj_from_tls(_KEY)
