"""One use of a region: its first run, and its recompute when the graph asks for what was dropped."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_leaves

from ..ambient import Ambient
from ..errors import CheckpointError
from ..patience import patiently
from .captured import Captured, captured_values, hidden_values
from .discarded import restore_first
from .graph import forget_contexts, mark_of_now, origins, since, survey
from .inputs import SavedInputs, cut
from .slots import Loan, Mark, Slot, Value
from .tasks import Task, current_task


class Frame:
    """A region's function with all that its recompute needs.

    The original graph holds the frame through the slots it keeps in place of saved tensors; the frame holds
    nothing that was computed. A recompute runs the whole region: stopping at the last saved tensor would
    leave the operation that saves it unfinished.

    Attributes:
        name: What messages call the region.
        marks: One for each tensor that the first run saved, in order.
        captured: What the first run reached by closure.
        made: The sequence numbers of the autograd nodes that the first run made; see `graph.since`.
        receiver: Takes the outputs of each recompute, detached; they are not kept otherwise. Held weakly: who
            receives them holds the frame.
    """

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name = _name(fn)
        self.marks: list[Mark] = []
        self._inputs = SavedInputs(args, kwargs)
        others = self._inputs.others()
        reached = [*captured_values(fn), *hidden_values(others)]
        self.captured = Captured(reached)
        self.receiver: weakref.WeakMethod[Callable[[list[Any]], None]] | None = None
        self._fn = fn
        self._lock = threading.RLock()
        self._ambient = Ambient([*others, *reached])
        self._running = False
        # known after the first run: only then is the recompute's graph walked for them
        self._has_contexts = True
        self.made = range(0)
        # what its graph hangs on in ways that no closure shows; a recompute may count in another thread
        self._hidden: set[Any] = set()

    def forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first run, on the caller's own inputs; what its graph saves is dropped."""
        self._running = True
        start, shown = mark_of_now(), origins([*tree_leaves((args, kwargs)), *self.captured.tensors()])
        with self._ambient.generators.drawn_from(self._pack), saved_tensors_hooks(self._pack, _unpack):
            output = self._fn(*args, **kwargs)
        self._running = False
        self.made = since(start)
        outside = set(shown)
        found = survey(tree_leaves(output), self.made, outside)
        self.captured.settle(found.leaves)
        self._has_contexts = bool(found.customs)
        self._hidden = outside - shown if found.customs else set()
        return output

    def outside(self) -> list[Tensor]:
        """Leaves that the first run saved and that outlived it: parameters, buffers, inputs."""
        return [tensor for mark in self.marks if (tensor := mark.outside()) is not None]

    def _pack(self, tensor: Tensor) -> Slot:
        self.marks.append(Mark(tensor))
        return Slot(self, len(self.marks) - 1)

    def unpack(self, slot: Slot) -> Tensor:
        """The saved tensor in a slot; the first one that a backward asks for runs the recompute."""
        task = current_task()
        with patiently(self._lock):
            again = task.reread(slot)
            if again is None:
                again = self._take(task, slot.number)
                self._ambient.streams.hand_over(again)
                task.remember(slot, again)
        return again

    def _take(self, task: Task, number: int) -> Tensor:
        """Hand a recomputed tensor over: it is the graph's from here on."""
        waiting = task.values.get(self)
        if waiting is None or number not in waiting:
            again = self._recompute()
            # what the graph took before is not kept a second time
            waiting = task.values.setdefault(self, again)
            if waiting is not again:
                return again[number].taken(self.name)
        return waiting.pop(number).taken(self.name)

    def restore(self) -> None:
        """Recompute now, unless this backward did already, and keep the values for the backward."""
        task = current_task()
        with patiently(self._lock):
            if self not in task.values:
                task.values[self] = self._recompute()

    def _recompute(self) -> dict[int, Value]:
        inputs = self._inputs.tensors(self.name)
        self.captured.check(self.name)
        restore_first([*inputs, *self.captured.tensors()])
        cuts = [cut(tensor) for tensor in inputs]
        outside = origins(self.captured.tensors()) | self._hidden
        args, kwargs = self._inputs.rebuilt(cuts)
        collected = _Collected(self.name, self.marks)
        try:
            with self._ambient.replayed(collected.pack), collected.hooks():
                start = mark_of_now()
                leaves = tree_leaves(self._fn(*args, **kwargs))
                made = since(start)
        finally:
            for tensor in cuts:
                _drop_gradient(tensor)
        values = collected.hand_over()
        self._check_count(len(values))
        receive = None if self.receiver is None else self.receiver()
        if receive is not None:
            receive([_detached(leaf) for leaf in leaves])
        if self._has_contexts:
            forget_contexts(leaves, made, outside)
        return values

    def _check_count(self, found: int) -> None:
        # a backward inside the region asks while the first run still goes on
        if found != len(self.marks) and not (self._running and found > len(self.marks)):
            raise CheckpointError(
                f"the recompute of {self.name} saved {found} tensors for backward, the forward saved "
                f"{len(self.marks)}: the region does not do the same both times"
            )


class _Collected:
    """What the graph of a recompute saves, by position.

    A region may keep one of its tensors, and with it the recompute's graph and these hooks. So they know
    neither the region nor, once the recompute is over, what it computed.
    """

    def __init__(self, name: str, marks: list[Mark]) -> None:
        self._name = name
        self._marks = marks
        self._values: dict[int, Value] = {}
        self._loans: list[Loan] = []

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """While these are active, saved tensors are collected."""
        try:
            with saved_tensors_hooks(self.pack, Loan.read):
                yield
        finally:
            while self._loans:
                self._loans.pop().end()

    def hand_over(self) -> dict[int, Value]:
        """The values, which are the caller's alone from here on."""
        values, self._values = self._values, {}
        return values

    def pack(self, tensor: Tensor) -> Loan:
        """Keep a value, and give the graph a loan of it."""
        number = len(self._values)
        self._check(number, tensor)
        value = self._values[number] = Value(tensor)
        self._loans.append(Loan(value.tensor))
        return self._loans[-1]

    def _check(self, number: int, tensor: Tensor) -> None:
        difference = self._marks[number].difference(tensor) if number < len(self._marks) else ""
        if difference:
            raise CheckpointError(
                f"the recompute of {self._name} differs from its forward in saved tensor {number}: "
                f"{difference}"
            )


def _drop_gradient(tensor: Tensor) -> None:
    """A backward within the region leaves a gradient on a leaf that the region may keep."""
    if tensor.is_leaf and tensor.requires_grad:
        tensor.grad = None


def _unpack(slot: Slot) -> Tensor:
    return slot.frame.unpack(slot)


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _name(fn: Callable[..., Any]) -> str:
    return f"region {getattr(fn, '__qualname__', type(fn).__qualname__)}"
