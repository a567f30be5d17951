"""Walking the part of the autograd graph that one run of a region made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

_LEAF = 2**63
"""Nodes that accumulate into leaves have the highest sequence numbers; others never get here."""


def mark_of_now() -> int:
    """A sequence number that every autograd node which this thread makes from here on will reach."""
    number: int = torch._C._autograd._get_sequence_nr()
    return number


def region_nodes(outputs: list[Any], start: int) -> Iterator[Any]:
    """The nodes behind the outputs that were made at `start` or later, leaves' nodes included."""
    waiting = [leaf.grad_fn for leaf in outputs if isinstance(leaf, Tensor) and leaf.grad_fn is not None]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node in seen or node._sequence_nr() < start:
            continue
        seen.add(node)
        yield node
        waiting.extend(parent for parent, _ in node.next_functions if parent is not None)


def leaves_behind(outputs: list[Any], start: int) -> Iterator[Tensor]:
    """The leaf tensors that the region's graph accumulates gradients into."""
    for node in region_nodes(outputs, start):
        variable = getattr(node, "variable", None) if node._sequence_nr() >= _LEAF else None
        if variable is not None:
            yield variable


def forget_contexts(outputs: list[Any], start: int) -> None:
    """Empty the contexts of custom functions in a graph that no backward will ever run through.

    A context that holds its function's output closes a cycle through C++, which would keep the recomputed
    output for good, once for each backward.
    """
    for node in region_nodes(outputs, start):
        if isinstance(node, BackwardCFunction):
            vars(node).clear()
