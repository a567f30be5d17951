"""Levels and births, step by step, at a cost that depends on what the steps made and not on the heap."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.instruments.census import Census, take_census, tensors_among
from ckpt_conformance.leaks.passing import Passing, with_graph


class StepWatch:
    """Takes a census after each step, and remembers in which step each tensor was first seen.

    While it runs, what was there before is frozen: the collector does not list it, so that a census looks at
    the steps' own objects. The collector itself rests, so that a cycle is seen at the same step in each run.
    Tensors are referred to weakly.
    """

    def __init__(self, device: torch.device | None) -> None:
        self._device = device
        self._born: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self._before: list[weakref.ref[Tensor]] = []
        self._was_on = False
        self._freezes = False
        self.censuses: list[Census] = []
        self.passing = Passing()
        self._sizes: set[int] = set()
        self._larger: list[weakref.ref[Tensor]] = []

    def start(self) -> None:
        """Freeze what is there."""
        self._was_on = gc.isenabled()
        gc.disable()
        # someone else's frozen objects would come back with ours
        self._freezes = gc.get_freeze_count() == 0
        self._freeze(tensors_among(gc.get_objects()), leaves_only=True)

    def thaw(self) -> None:
        """Let the collector list everything again, so that holders can be looked for; it still rests."""
        if self._freezes:
            gc.unfreeze()

    def stop(self) -> None:
        """Leave the collector as it was."""
        if self._was_on:
            gc.enable()

    def observe(self, *, warming_up: bool) -> None:
        """Note a step's end."""
        visible = tensors_among(gc.get_objects())
        known = {id(tensor) for tensor in visible}
        also = [tensor for tensor in _alive(self._before) if id(tensor) not in known]
        census = take_census(self._device, also=also)
        # counting gave an object to tensors that only a graph had: they were made in this step as well
        visible = tensors_among(gc.get_objects())
        self.censuses.append(replace(census, tensors=len(also) + len(visible)))
        del also
        self._note(visible)
        if warming_up:
            # imports and caches of the first step; without this each census would look at them again
            self._freeze(visible)

    def _note(self, visible: list[Tensor]) -> None:
        step = len(self.censuses)
        fresh = [tensor for tensor in visible if self._step_of(tensor) is None]
        for tensor in fresh:
            self._born[id(tensor)] = weakref.ref(tensor), step
        self.passing.note(fresh)
        sizes = {id(tensor): tensor.numel() * tensor.element_size() for tensor in fresh}
        self._larger = [weakref.ref(one) for one in fresh if sizes[id(one)] not in self._sizes]
        self._sizes.update(sizes.values())

    def _step_of(self, tensor: Tensor) -> int | None:
        known = self._born.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None

    def _freeze(self, tensors: list[Tensor], *, leaves_only: bool = False) -> None:
        if self._freezes:
            self._before += [weakref.ref(one) for one in tensors if not leaves_only or _may_have_grad(one)]
            gc.freeze()

    def survivors(self, after: int, before: int) -> list[tuple[Tensor, int]]:
        """The tensors that live and were first seen in a step later than one and earlier than another."""
        found = [(seen(), step) for seen, step in self._born.values() if after < step < before]
        return [(tensor, step) for tensor, step in found if tensor is not None]

    def replaced(self, least: float) -> list[tuple[Tensor, int]]:
        """Tensors of the last step, at least so large, of a size that no step before it made.

        What each step replaces by something larger, such as a cache that is added to, outlives no step.
        """
        found = [tensor for tensor in _alive(self._larger) if tensor.untyped_storage().nbytes() >= least]
        return [(tensor, len(self.censuses)) for tensor in found]

    def late(self, warmup: int) -> list[tuple[Tensor, int]]:
        """What the last step made of a graph and will be gone at the next one's end, as in each step."""
        last = len(self.censuses)
        kept = with_graph(self.passing.late(warmup), lambda tensor: self._step_of(tensor) == last)
        return [(tensor, last) for tensor in {id(tensor): tensor for tensor in kept}.values()]


def _may_have_grad(tensor: Tensor) -> bool:
    with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 - a subclass could run code of its own
        return tensor.is_leaf and tensor.requires_grad


def _alive(references: Iterable[weakref.ref[Any]]) -> list[Any]:
    return [value for reference in references if (value := reference()) is not None]
