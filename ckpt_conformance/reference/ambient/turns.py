"""Turns at the default generators: one run of a region at a time, with the backwards that it starts."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch

from ..patience import patiently

Pack: TypeAlias = Callable[[Any], Any]

_LOCK = threading.RLock()
# before torch 2.8 nothing tells the hooks: there a backward in another thread waits as long as is patient
_top_hooks: Any = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _ignore: None)


class _Turn:
    """The runs that share one turn: a region, those in it, and those that their backwards recompute.

    Attributes:
        threads: Where they run.
        packs: What they pack saved tensors with. The engine's threads have their caller's hooks in place.
    """

    __slots__ = ("packs", "threads")

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.packs: list[Pack] = []

    def has_this_thread(self) -> bool:
        """Whether this thread runs a region of this turn, or part of a backward that one waits for."""
        if threading.get_ident() in self.threads:
            return True
        hooks = _top_hooks(True)
        return hooks is not None and hooks[0] in self.packs

    @contextlib.contextmanager
    def joined(self, pack: Pack | None) -> Iterator[None]:
        """One more run, in this thread."""
        thread, packs = threading.get_ident(), [pack] if pack else []
        new = thread not in self.threads
        self.threads.add(thread)
        self.packs += packs
        try:
            yield
        finally:
            for added in packs:
                self.packs.remove(added)
            if new:
                self.threads.discard(thread)


_TURNS: list[_Turn] = []
"""Those that last: one, unless a thread did not wait for its turn to the end."""


@contextlib.contextmanager
def turn(pack: Pack | None = None) -> Iterator[None]:
    """Wait for a turn; what belongs to one that lasts joins it.

    The default generators belong to the whole process, so two regions that draw at the same time in two
    threads would take numbers from one another. But a region that asks for a gradient waits for the engine,
    which runs that backward in a thread of its own on a GPU, and recomputes the regions in it there: they
    must not wait for the one that waits for them.

    Args:
        pack: What the region's saved tensors are packed with, by which its backwards are known.
    """
    # a copy: one that ends meanwhile would make this pass over the next
    present = next((lasting for lasting in tuple(_TURNS) if lasting.has_this_thread()), None)
    if present is not None:
        with present.joined(pack):
            yield
        return
    with patiently(_LOCK):
        new = _Turn()
        _TURNS.append(new)
        try:
            with new.joined(pack):
                yield
        finally:
            _TURNS.remove(new)
