"""Run a region plainly and under a candidate, and compare everything that a user can see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import starmap
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_flatten

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Consumer, Region, keep_saved
from ckpt_conformance.standard.evidence import Violation, expect_equal, expect_same_tensor, within_rounding
from ckpt_conformance.standard.lab import Lab

Result = TypeVar("Result")

RegionFactory: TypeAlias = Callable[[torch.device], Region]
"""Makes a fresh region with the same values every time."""

Program: TypeAlias = Callable[[Candidate, torch.device], Mapping[str, Tensor | None]]
"""Runs any number of regions under a candidate, backwards included, and gives what a user would look at."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one run of a region showed.

    Attributes:
        outputs: The consumer's tensors, detached, in tree order.
        structure: The tree and the values in it that are no tensors.
        requires_grad: Which of the outputs require grad.
        gradients: `.grad` of each leaf after backward, by name.
    """

    outputs: tuple[Tensor, ...]
    structure: str
    requires_grad: tuple[bool, ...]
    gradients: dict[str, Tensor | None]


def observe(
    candidate: Candidate, region: Region, consumer: Consumer = keep_saved, *, seed: int = 1234
) -> Observation:
    """Run forward and backward once, from a known random state, and note what came out.

    The loss is a weighted sum over every differentiable output, so that each element's gradient is its own.
    """
    torch.manual_seed(seed)
    result = candidate.run(region, consumer)
    seen = _forward_facts(result)
    loss = weighted_loss(result)
    if loss is not None:
        loss.backward()
    return Observation(*seen, {name: _clone(leaf.grad) for name, leaf in region.leaves() if leaf.is_leaf})


def _forward_facts(result: Any) -> tuple[tuple[Tensor, ...], str, tuple[bool, ...]]:
    values, spec = tree_flatten(result)
    tensors = [value for value in values if isinstance(value, Tensor)]
    others = ["tensor" if isinstance(value, Tensor) else repr(value) for value in values]
    outputs = tuple(tensor.detach().clone() for tensor in tensors)
    return outputs, f"{spec} {others}", tuple(tensor.requires_grad for tensor in tensors)


def _clone(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()


def weighted_loss(result: Any) -> Tensor | None:
    """A scalar in which every differentiable element of the result has a weight of its own, or None."""
    tensors = [
        value for value in tree_flatten(result)[0] if isinstance(value, Tensor) and value.requires_grad
    ]
    if not tensors:
        return None
    return torch.stack([_weighted(tensor) for tensor in tensors]).sum()


def _weighted(tensor: Tensor) -> Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    weights = torch.linspace(0.5, 1.5, real.numel(), device=real.device, dtype=torch.float64).reshape(
        real.shape
    )
    return (real * weights.to(real.dtype)).sum().to(torch.float64)


def expect_same(expected: Observation, found: Observation) -> None:
    """Report the first difference between the plain run and the candidate's, forward facts first."""
    expect_equal("the structure of the output differs", expected.structure, found.structure)
    for number, (want, got) in enumerate(zip(expected.outputs, found.outputs, strict=True)):
        expect_same_tensor(f"output {number}", want, got)
    expect_equal("requires_grad of the outputs differs", expected.requires_grad, found.requires_grad)
    for name, want_grad in expected.gradients.items():
        expect_same_tensor(f"gradient of {name}", want_grad, found.gradients[name])


CLEAR_ERRORS = (NotImplementedError, RuntimeError, TypeError, ValueError)
"""By these an implementation, or autograd, says that something cannot be right; others are accidents."""


def expect_like_plain(
    candidate: Candidate, lab: Lab, factory: RegionFactory, consumer: Consumer = keep_saved
) -> None:
    """Report any difference between a plain run of the region and one under the candidate.

    Raises:
        Violation: An output, its `requires_grad` or a gradient differs.
    """
    expect_run_like_plain(candidate, lambda who: observe(who, factory(lab.device), consumer))


def expect_run_like_plain(candidate: Candidate, run: Callable[[Candidate], Observation]) -> None:
    """Report any difference between an observed run with no checkpointing and the candidate's.

    Raises:
        Violation: An output, its `requires_grad` or a gradient differs.
    """
    expect_right(candidate, run, expect_same, _tensors_seen)


def expect_right(
    candidate: Candidate,
    run: Callable[[Candidate], Result],
    compare: Callable[[Result, Result], None],
    tensors: Callable[[Result], Iterable[Tensor | None]],
) -> None:
    """Report the difference from the plain run, unless it comes from where the saved tensors were kept.

    A matrix product with a contiguous operand takes another kernel than with a transposed one, and rounds
    otherwise: both are right, and a candidate that keeps elsewhere what was saved gives the second. So a
    plain run whose saved tensors come back contiguous is right too, if it differs by rounding alone.

    Raises:
        Violation: The candidate's run is neither.
    """
    plain, found = run(PLAIN), run(candidate)
    try:
        compare(plain, found)
    except Violation:
        with suppress(*CLEAR_ERRORS, Violation):
            moved = run(_MOVED)
            compare(moved, found)
            if all(starmap(within_rounding, zip(tensors(plain), tensors(moved), strict=True))):
                return
        raise


def expect_run_of_tensors_like_plain(
    candidate: Candidate, run: Callable[[Candidate], Mapping[str, Tensor | None]]
) -> None:
    """Report any difference between the named tensors of a plain run and of the candidate's."""
    expect_right(candidate, run, expect_same_tensors, lambda shown: shown.values())


def _tensors_seen(seen: Observation) -> Iterable[Tensor | None]:
    return [*seen.outputs, *seen.gradients.values()]


def _move(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


_MOVED = Candidate.from_context(
    lambda: saved_tensors_hooks(_move, lambda tensor: tensor), name="plain, moved"
)


def expect_right_or_error(expected: Observation, attempt: Callable[[], Observation]) -> None:
    """Accept a clear error or what is right, and nothing between: never silently wrong.

    Raises:
        Violation: The attempt raised nothing and yet differs from what is right.
    """
    try:
        found = attempt()
    except CLEAR_ERRORS:
        return
    expect_same(expected, found)


def expect_program_like_plain(candidate: Candidate, lab: Lab, program: Program, *, seed: int = 1234) -> None:
    """Report any difference between a program of several regions run plainly and under the candidate.

    Raises:
        Violation: One of the program's tensors differs, is missing, or is there for nothing.
    """

    def run(who: Candidate) -> Mapping[str, Tensor | None]:
        torch.manual_seed(seed)
        return program(who, lab.device)

    expect_run_of_tensors_like_plain(candidate, run)


def expect_same_tensors(expected: Mapping[str, Tensor | None], found: Mapping[str, Tensor | None]) -> None:
    """Report the first of several named tensors that differs."""
    for name, tensor in expected.items():
        expect_same_tensor(name, tensor, found[name])


def gradients_of(**leaves: Tensor) -> dict[str, Tensor | None]:
    """The gradients of some leaves, named for the evidence."""
    return {f"gradient of {name}": _clone(leaf.grad) for name, leaf in leaves.items()}


def backward_from(result: Any, **options: Any) -> None:
    """Go back from the weighted loss of a result, where anything in it needs a gradient."""
    loss = weighted_loss(result)
    if loss is not None:
        loss.backward(**options)
