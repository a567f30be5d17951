"""What is late: the graph of a step that is alive at the step's end and gone at the next one's, each time.

Only what belongs to a graph counts: results of operations, leaves made in the step, and what the graph
saved. A tensor outside of any graph, such as a running mean or the gradient of a parameter, is what one step
means to hand to the next.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from torch import Tensor
from torch.nn import Parameter

from ckpt_conformance.instruments.census import reachable_nodes
from ckpt_conformance.instruments.trace.native import raw_saved, saved_data
from ckpt_conformance.leaks.look import Look, look_of

SHARE = 0.01
"""Late memory that is less than this share of what lives is told of, and not looked into."""


class Passing:
    """Remembers, from step to step, which tensors of a graph outlived their step; refers to them weakly."""

    def __init__(self) -> None:
        self._last: list[tuple[weakref.ref[Tensor], Look, int]] = []
        self._passed: list[Counter[Look]] = []

    def note(self, made: Iterable[Tensor]) -> None:
        """Note the end of a step, given the tensors that it made and that live."""
        self._passed.append(self._gone())
        self._last = [
            (weakref.ref(one), look_of(one), one.numel() * one.element_size())
            for one in made
            if one.requires_grad and not isinstance(one, Parameter)
        ]

    def _gone(self) -> Counter[Look]:
        """Bytes by look of what the step before passed on, where nothing of that look stayed."""
        gone: Counter[Look] = Counter()
        for _, look, size in self._last:
            gone[look] += size
        for reference, look, _ in self._last:
            if reference() is not None:
                gone.pop(look, None)
        return gone

    @property
    def bytes(self) -> int:
        """What the step before the last one passed on to it, by the tensors that Python saw."""
        return sum(self._passed[-1].values()) if self._passed else 0

    def late(self, warmup: int) -> list[Tensor]:
        """What lives of the last step and looks like what each step after the warm-up passed on."""
        passed = self._passed[warmup:]
        always = set(passed[0]).intersection(*passed[1:]) if len(passed) > 1 else set()
        found = [reference() for reference, look, _ in self._last if look in always]
        return [tensor for tensor in found if tensor is not None]


def with_graph(ends: list[Tensor], made: Callable[[Tensor], bool]) -> Iterator[Tensor]:
    """Some tensors, and what the step made that their graphs keep: saved tensors, leaves, gradients.

    Args:
        ends: The tensors.
        made: Whether the step made a tensor. The gradient of a leaf that it did not make, such as a
            parameter, is the optimizer's, and no part of the graph.
    """
    yield from ends
    leaves = [end for end in ends if end.is_leaf]
    for node in reachable_nodes(ends):
        saved = (saved_data(one) for _, one in raw_saved(node))
        yield from (data for data in saved if isinstance(data, Tensor) and made(data))
        leaf = getattr(node, "variable", None)
        leaves += [leaf] if isinstance(leaf, Tensor) and made(leaf) else []
    for leaf in leaves:
        yield leaf
        if leaf.grad is not None:
            yield leaf.grad
