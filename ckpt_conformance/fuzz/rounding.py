"""Which programs leave the order of a sum to the implementation, so that last bits may differ."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import Tensor

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.fuzz.execute import execute
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
