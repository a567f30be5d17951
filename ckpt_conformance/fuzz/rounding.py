"""What programs leave to the implementation: the order of a sum, its precision, where tensors lie."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.fuzz.execute import Sight, cast_dtype, execute
from ckpt_conformance.fuzz.program import Program

_FREE = 3
"""Two contributions give one sum in either order."""

_Meetings: TypeAlias = Mapping[tuple[Any, int], Sequence[Any]]
_Seen = TypeVar("_Seen", Tensor, "Tensor | None")


def sum_in_any_order(program: Program) -> str:
    """What the backward adds up of three contributions or more, in words; empty where it does so nowhere.

    An implementation that runs a region's backward on its own adds up those of the region first. Every other
    operation is deterministic, and so is its gradient.
    """
    if "inner-backward" in program.features:
        return "sums in a gradient that the region asks for"
    # what a second backward adds meets what the first one left
    times = 2 if program.plan in {"twice", "second"} else 1
    for met in _meetings(program):
        most = max(met, key=lambda place: len(met[place]), default=None)
        if most is not None and len(met[most]) * times >= _FREE:
            return f"{len(met[most]) * times} gradients meet at {most[0].name().rpartition('::')[2]}"
    return ""


def past_casts(program: Program, plain: Sight, found: Sight) -> tuple[Sight, str]:
    """What was found, with the plain run's numbers where sums of casts alone explain others; and why.

    Autocast casts a leaf once for all its uses, whose gradients it adds up in half precision, and what is no
    leaf anew for each. Which of the two holds is the implementation's to choose: one that cuts a region's
    inputs off the graph makes leaves of them, and one that begins another autocast casts all leaves again.
    The reason is empty where this explains nothing.
    """
    dtype, most = cast_dtype(program), _most_casts(program)
    if dtype is None or most < 2:
        return found, ""
    # a second step multiplies what the first one has moved
    eps = torch.inf if program.plan == "steps" else 2 * most * torch.finfo(dtype).eps

    def past(want: _Seen, got: _Seen) -> _Seen:
        return want if _within(want, got, eps) else got

    explained = replace(
        found,
        gradients={name: past(plain.gradients.get(name), got) for name, got in found.gradients.items()},
        leaves={name: past(plain.leaves[name], got) for name, got in found.leaves.items()},
        results=list(map(past, plain.results, found.results))
        if results_hang_on_gradients(program)
        else found.results,
    )
    if all(one is two for one, two in zip(numbers(found), numbers(explained), strict=False)):
        return found, ""
    name = str(dtype).removeprefix("torch.")
    return explained, f"sums of {most} gradients are in {name} or not, as casts are kept or not"


def results_hang_on_gradients(program: Program) -> bool:
    """Whether a gradient goes into a result: that of the step before, or one that a region asks for."""
    return program.plan == "steps" or "inner-backward" in program.features


def _most_casts(program: Program) -> int:
    """How many gradients of casts of one tensor the backward adds up, at most."""
    if program.autocast in {"", "backward"}:
        return 0
    return max(
        (
            len(sources) if _is_cast(node) else sum(map(_is_cast, sources))
            for met in _meetings(program)
            for (node, _), sources in met.items()
        ),
        default=0,
    )


def _is_cast(node: Any) -> bool:
    return "ToCopyBackward" in node.name()


def _within(want: Tensor | None, got: Tensor | None, eps: float) -> bool:
    """Whether two tensors differ, but by no more than a part of the largest element."""
    if want is None or got is None or want.shape != got.shape:
        return False
    # where the plain run's sum has overflowed, another need not
    return 0 < gap(want, got) <= eps * float(want.detach().abs().nan_to_num(torch.inf, torch.inf).max())


def rounds_by_layout(program: Program, plain: Sight) -> str:
    """Whether the plain run itself rounds otherwise where saved tensors come back contiguous, in words.

    A matrix product takes another kernel for a transposed operand; what was kept elsewhere, as on the host,
    is not transposed any more.
    """
    other = execute(program, PLAIN, lambda: saved_tensors_hooks(_contiguous, lambda tensor: tensor))
    pairs = zip(numbers(plain), numbers(other), strict=False)
    same = all(one is two if one is None or two is None else torch.equal(one, two) for one, two in pairs)
    return "" if same else "saved tensors that lie in memory otherwise take other kernels"


def numbers(sight: Sight) -> list[Tensor | None]:
    """Every tensor that is compared."""
    return [*sight.gradients.values(), *sight.results, *sight.leaves.values()]


def gap(one: Tensor, other: Tensor) -> float:
    """How far two tensors of one shape are apart; infinite where one of them alone is infinite or NaN."""
    one, other = one.detach(), other.detach()
    apart = (one != other) & ~(one.isnan() & other.isnan())
    return (
        float((one[apart] - other[apart]).abs().nan_to_num(torch.inf, torch.inf).max())
        if apart.any()
        else 0.0
    )


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _meetings(program: Program) -> list[_Meetings]:
    """For each backward of the plain run, what hands each node of its graph a gradient, by place."""
    seen: list[_Meetings] = []
    execute(program, PLAIN, look=lambda result: seen.append(_sources(result)))
    return seen


def _sources(result: Tensor) -> _Meetings:
    sources: defaultdict[tuple[Any, int], list[Any]] = defaultdict(list)
    waiting, met = [result.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in met:
            continue
        met.add(node)
        for follower, place in node.next_functions:
            if follower is not None:
                sources[follower, place].append(node)
                waiting.append(follower)
    return sources
