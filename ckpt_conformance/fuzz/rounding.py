"""What programs leave to the implementation: the order of a sum, its precision, where tensors lie."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.fuzz.execute import Sight, cast_dtype, execute
from ckpt_conformance.fuzz.program import Program

_FREE = 3
"""Two contributions give one sum in either order."""

_ULPS = 32
"""How far apart sums of the same contributions may be, where they are added up in another order."""
_AMPLIFIED = 1024
_LARGE = 3e4
"""About half of what half precision can hold."""

_Meetings: TypeAlias = Mapping[tuple[Any, int], Sequence[Any]]


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


@dataclass(frozen=True, slots=True)
class Leeway:
    """How far the numbers of a run may be off.

    Attributes:
        part: By which part of the tensor's largest element.
        what: Within what they stay then, in words.
        why: Says why they may; nothing where they may not after all.
        overflows: Whether a sum may be infinite on either side alone.
        amplified: By which part after a second step, which multiplies what the first one has moved.
    """

    part: float
    what: str
    why: Callable[[], str]
    overflows: bool = False
    amplified: float = 1e30


def leeways(program: Program, plain: Sight) -> Iterator[Leeway]:
    """What a program may leave to the implementation, the narrowest first."""
    part = _ULPS * torch.finfo(torch.float32).eps
    yield Leeway(
        part,
        "in its last bits",
        lambda: sum_in_any_order(program) or rounds_by_layout(program, plain),
        amplified=_AMPLIFIED * part,
    )
    dtype, most = cast_dtype(program), _most_casts(program)
    if dtype is not None and most > 1:
        yield _of_casts(dtype, most)


def _of_casts(dtype: torch.dtype, most: int) -> Leeway:
    """What a backward under autocast leaves open that adds up so many gradients of casts of one tensor.

    Autocast casts a leaf once for all its uses, whose gradients it adds up in half precision, and what is no
    leaf anew for each. Which of the two holds is the implementation's to choose: one that cuts a region's
    inputs off the graph makes leaves of them, and one that begins another autocast casts all leaves again.
    """
    name = str(dtype).removeprefix("torch.")
    return Leeway(
        4 * math.sqrt(most) * torch.finfo(dtype).eps,
        "within half precision",
        lambda: f"sums of {most} gradients are in {name} or not, as casts are kept or not",
        overflows=dtype == torch.float16,
    )


def past(program: Program, plain: Sight, found: Sight, leeway: Leeway) -> Sight | None:
    """What was found, with the plain run's numbers where the leeway explains others; None if it does not.

    A result hangs on no gradient, nor does a leaf, but where a region asks for one or after a step.
    """
    stepped, asks = program.plan == "steps", "inner-backward" in program.features
    part = leeway.amplified if stepped else leeway.part

    def explained(want: Tensor | None, got: Tensor) -> Tensor:
        if want is not None and _within(want, got, part, overflows=leeway.overflows):
            return want
        return got

    begun = 0 if asks else 1 if stepped else len(found.results)
    gradients = {
        name: None if got is None else explained(plain.gradients.get(name), got)
        for name, got in found.gradients.items()
    }
    leaves = {
        name: explained(plain.leaves[name], got) if stepped else got for name, got in found.leaves.items()
    }
    results = [*found.results[:begun], *map(explained, plain.results[begun:], found.results[begun:])]
    new = replace(found, gradients=gradients, leaves=leaves, results=results)
    same = all(one is two for one, two in zip(numbers(found), numbers(new), strict=True))
    return None if same else new


def _most_casts(program: Program) -> int:
    """How many gradients of autocast's casts of one tensor the backward adds up, at most."""
    dtype = cast_dtype(program)
    if dtype is None:
        return 0

    def is_cast(node: Any) -> bool:
        return "ToCopyBackward" in node.name() and node._input_metadata[0].dtype == dtype

    return max(
        (
            len(sources) if is_cast(node) else sum(map(is_cast, sources))
            for met in _meetings(program)
            for (node, _), sources in met.items()
        ),
        default=0,
    )


def _within(want: Tensor, got: Tensor, part: float, *, overflows: bool) -> bool:
    """Whether two tensors differ, but by no more than a part of the largest element."""
    want, got = want.detach(), got.detach()
    if (want.shape, want.dtype) != (got.shape, got.dtype) or gap(want, got) == 0:
        return False
    if overflows:
        # what is infinite on one side alone has overflowed there, if it is large on the other
        large = (want.abs().nan_to_num(math.inf) > _LARGE) & (got.abs().nan_to_num(math.inf) > _LARGE)
        got = torch.where(large & ~(want.isfinite() & got.isfinite()), want, got)
    return gap(want, got) <= max(part * largest(want), ulps(want))


def ulps(tensor: Tensor) -> float:
    """A few units in the last place of a tensor's largest element, of single precision at least.

    A double may come of what was computed in single precision.
    """
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    eps = max(torch.finfo(tensor.dtype).eps, torch.finfo(torch.float32).eps)
    return _ULPS * eps * largest(tensor)


def largest(tensor: Tensor) -> float:
    """The size of a tensor's largest element that is finite; 0 without one."""
    sizes = tensor.detach().abs()
    return float(sizes[sizes.isfinite()].max()) if sizes.isfinite().any() else 0.0


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
