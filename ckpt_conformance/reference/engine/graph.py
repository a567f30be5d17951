"""Walking the part of the autograd graph that one run of a region made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction


def mark_of_now() -> int:
    """A sequence number that every autograd node which this thread makes from here on will reach."""
    number: int = torch._C._autograd._get_sequence_nr()
    return number


def region_nodes(outputs: list[Any], start: int) -> Iterator[Any]:
    """The nodes behind the outputs that were made at `start` or later, leaves' nodes included."""
    waiting = [leaf.grad_fn for leaf in outputs if isinstance(leaf, Tensor) and leaf.grad_fn is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if node._sequence_nr() < start:
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


def survey(outputs: list[Any], start: int) -> Survey:
    """Walk the region's graph once."""
    found = Survey([], [])
    for node in region_nodes(outputs, start):
        if isinstance(node, BackwardCFunction):
            found.customs.append(node)
        elif (variable := getattr(node, "variable", None)) is not None:
            found.leaves.append(variable)
    return found


def forget_contexts(outputs: list[Any], start: int) -> None:
    """Empty the contexts of custom functions in a graph that no backward will ever run through.

    A context that holds its function's output closes a cycle through C++, which would keep the recomputed
    output for good, once for each backward.
    """
    for node in survey(outputs, start).customs:
        vars(node).clear()
