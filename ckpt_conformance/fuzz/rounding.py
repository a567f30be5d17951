"""Which programs leave their last bits to the implementation: the order of a sum, or where tensors lie."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.fuzz.execute import Sight, execute
from ckpt_conformance.fuzz.program import Program

_FREE = 3
"""Two contributions give one sum in either order."""


def sum_in_any_order(program: Program) -> str:
    """What the backward adds up of three contributions or more, in words; empty where it does so nowhere.

    An implementation that runs a region's backward on its own adds up those of the region first. Every other
    operation is deterministic, and so is its gradient.
    """
    if "inner-backward" in program.features:
        return "sums in a gradient that the region asks for"
    seen: list[str] = []
    # what a second backward adds meets what the first one left
    times = 2 if program.plan in {"twice", "second"} else 1
    execute(program, PLAIN, look=lambda result: seen.append(_most_added_to(result, times)))
    return next(filter(None, seen), "")


def rounds_by_layout(program: Program, plain: Sight) -> str:
    """Whether the plain run itself rounds otherwise where saved tensors come back contiguous, in words.

    A matrix product takes another kernel for a transposed operand; what was kept elsewhere, as on the host,
    is not transposed any more.
    """
    other = execute(program, PLAIN, lambda: saved_tensors_hooks(_contiguous, lambda tensor: tensor))
    pairs = zip(_seen(plain), _seen(other), strict=False)
    same = all(
        (one is None) == (two is None) and (one is None or torch.equal(one, two)) for one, two in pairs
    )
    return "" if same else "saved tensors that lie in memory otherwise take other kernels"


def _seen(sight: Sight) -> list[Any]:
    return [*sight.gradients.values(), *sight.results, *sight.leaves.values()]


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _most_added_to(result: Tensor, times: int) -> str:
    counted: Counter[tuple[Any, int]] = Counter()
    waiting, met = [result.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        for follower, place in node.next_functions:
            if follower is not None:
                counted[follower, place] += 1
                waiting.append(follower)
    most = max(counted, key=counted.__getitem__, default=None)
    if most is None or counted[most] * times < _FREE:
        return ""
    return f"{counted[most] * times} gradients meet at {most[0].name().rpartition('::')[2]}"
