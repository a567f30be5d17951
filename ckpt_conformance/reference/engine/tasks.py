"""Recomputed tensors belong to one backward, and go with it."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from .slots import Slot, Value

if TYPE_CHECKING:
    from .frame import Frame

_C: Any = torch._C


class Task:
    """What the regions recomputed in one backward (torch's graph task) and its graph has not asked for yet.

    The task is held by a callback in torch's own graph task alone, so it dies with that, also when the
    backward fails half-way: nothing recomputed outlives a backward.
    """

    def __init__(self) -> None:
        # a frame dies with the last slot of its region, and so do the values that nobody asked for
        self.values: weakref.WeakKeyDictionary[Frame, dict[int, Value]] = weakref.WeakKeyDictionary()
        self._reader: Any = None
        self._read: dict[Slot, Tensor] = {}

    def reread(self, slot: Slot) -> Tensor | None:
        """What the running node was given for this slot before: custom functions may read twice."""
        if self._reader is not None and self._reader is not _C._current_autograd_node():
            self._reader, self._read = None, {}
        return self._read.get(slot)

    def remember(self, slot: Slot, tensor: Tensor) -> None:
        """Keep what was given out until another node runs; torch's own nodes read once."""
        node = _C._current_autograd_node()
        if isinstance(node, BackwardCFunction):
            self._reader = node
            self._read[slot] = tensor

    def end(self) -> None:
        """The backward is over."""
        self.values.clear()
        self._reader, self._read = None, {}


_TASKS: weakref.WeakValueDictionary[int, Task] = weakref.WeakValueDictionary()
_LOCK = threading.Lock()


def current_task() -> Task:
    """The running backward's task; one of its own for each call outside of any."""
    number: int = _C._current_graph_task_id()
    if number == -1:
        return Task()
    task = _TASKS.get(number)
    if task is not None:
        return task
    with _LOCK:
        task = _TASKS.get(number)
        if task is None:
            task = _TASKS[number] = Task()
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(task.end)
    return task


def in_backward() -> bool:
    """Whether this thread runs part of a backward."""
    return bool(_C._current_graph_task_id() != -1)
