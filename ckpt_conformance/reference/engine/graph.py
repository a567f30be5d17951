"""Walking the part of the autograd graph that one run of a region made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

_LEAF = 2**64 - 1
"""The sequence number of every node that accumulates a leaf's gradient."""


def mark_of_now() -> int:
    """A sequence number that every autograd node which this thread makes from here on will reach."""
    number: int = torch._C._autograd._get_sequence_nr()
    return number


def since(mark: int) -> range:
    """The sequence numbers of the nodes that this thread has made since a mark.

    Each thread counts for itself: a node of another one may have any number, and a mark alone would take it
    for a node of this run where that thread has counted further.
    """
    return range(mark, mark_of_now())


def origins(values: Iterable[Any]) -> set[Any]:
    """The nodes that tensors come from."""
    return {value.grad_fn for value in values if isinstance(value, Tensor) and value.grad_fn is not None}


def region_nodes(outputs: list[Any], made: range, outside: set[Any]) -> Iterator[Any]:
    """The nodes behind the outputs that one run of a region made, leaves' nodes included.

    Args:
        outputs: What the run gave.
        made: The run's sequence numbers; see `since`.
        outside: Nodes that are known to be none of its; those that the walk finds are added.
    """
    waiting = list(origins(outputs))
    seen = {*waiting, *outside}
    while waiting:
        node = waiting.pop()
        if node in outside:
            continue
        if (number := node._sequence_nr()) not in made and number != _LEAF:
            outside.add(node)
            continue
        yield node
        for parent, _ in node.next_functions:
            if parent is not None and parent not in seen:
                seen.add(parent)
                waiting.append(parent)


class Survey(NamedTuple):
    """What one walk over a region's graph finds.

    Attributes:
        leaves: The leaf tensors that the graph accumulates gradients into.
        customs: The nodes of custom functions.
    """

    leaves: list[Tensor]
    customs: list[BackwardCFunction]


def survey(outputs: list[Any], made: range, outside: set[Any]) -> Survey:
    """Walk the region's graph once; the arguments are those of `region_nodes`."""
    found = Survey([], [])
    for node in region_nodes(outputs, made, outside):
        if isinstance(node, BackwardCFunction):
            found.customs.append(node)
        elif (variable := getattr(node, "variable", None)) is not None:
            found.leaves.append(variable)
    return found


def forget_contexts(outputs: list[Any], made: range, outside: set[Any]) -> None:
    """Empty the contexts of custom functions in a graph that no backward will ever run through.

    A context that holds its function's output closes a cycle through C++, which would keep the recomputed
    output for good, once for each backward.
    """
    for node in survey(outputs, made, outside).customs:
        vars(node).clear()
