"""arguments: positional, keyword and non-tensor arguments, and what may be called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, sample, seeded_module
from ckpt_conformance.standard.compare import expect_like_plain, expect_program_like_plain
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, SHOULD, requirement


def distinct_arguments(device: torch.device) -> Region:
    """Four tensors of one shape, each used in its own way."""
    inputs = tuple(sample(4, 8, device=device, seed=number) for number in range(4))
    return Region(lambda a, b, c, d: a.sin() * b.exp() - c.tanh() * d.square(), inputs)


@requirement(
    "arguments/order",
    MUST,
    since="2026.12",
    source=("huggingface/transformers#23366", "Stability-AI/generative-models#487", "pytorch/pytorch#11093"),
)
def order(candidate: Candidate, lab: Lab) -> None:
    """Positional arguments reach the region all of them, in their order, in both runs.

    Two arguments of one shape that change places raise nothing: attention mask and position bias did. An
    implementation that sorts tensors from the rest has to put each back in its place.

    How: flatten and unflatten by place.
    """
    expect_like_plain(candidate, lab, distinct_arguments)


def scaled(x: Tensor, *, mask: Tensor | None = None, scale: float = 1.0) -> Tensor:
    """A function whose keyword arguments have defaults, so that a dropped one raises nothing."""
    return (x if mask is None else x * mask).sin() * scale


def masked_by_keyword(device: torch.device) -> Region:
    """A region with a tensor and a number by keyword."""
    mask = sample(4, 8, device=device, grad=False, seed=1) > 0
    return Region(scaled, (sample(4, 8, device=device),), {"mask": mask, "scale": 0.5})


@requirement(
    "arguments/keywords", MAY, since="2026.12", capability="kwargs", source="lightly-ai/lightly#2049"
)
def keywords(candidate: Candidate, lab: Lab) -> None:
    """Keyword arguments reach the region in both runs, or are refused; never dropped.

    A mask that is silently left out trains on the padding. Most keyword arguments have defaults, so nothing
    raises.

    How: pass them on, in the recompute too; or raise a TypeError that names them.
    """
    expect_like_plain(candidate, lab, masked_by_keyword)


def trained_by_keyword(device: torch.device) -> Region:
    """A region with a tensor by keyword that needs grad, and is no leaf's only use."""
    x, gate = sample(4, 8, device=device), sample(4, 8, device=device, seed=1)
    return Region(lambda x, *, gate: (x * gate.sigmoid()).tanh(), (x,), {"gate": gate})


@requirement(
    "arguments/keywords-that-need-grad",
    MAY,
    since="2026.12",
    capability="kwargs",
    source="unslothai/unsloth-zoo#1038",
)
def keywords_that_need_grad(candidate: Candidate, lab: Lab) -> None:
    """A tensor passed by keyword gets its gradient like a positional one.

    Bound into the function with `functools.partial`, it joins the outer graph unseen; taken out of the
    arguments, it is a constant.

    How: treat positional and keyword arguments as one tree.
    """
    expect_like_plain(candidate, lab, trained_by_keyword)


OPTION_NAMES = ("function", "debug", "preserve_rng_state", "context_fn", "distribute_saved_activations")
"""Keyword names that checkpoint functions take for themselves."""


def named_like_options(device: torch.device) -> Region:
    """A region whose keyword arguments are named like a checkpoint function's options."""
    values = {
        name: sample(8, device=device, grad=False, seed=number) for number, name in enumerate(OPTION_NAMES)
    }
    return Region(
        lambda x, **options: (x * sum(options[name] for name in OPTION_NAMES)).sin(),
        (sample(4, 8, device=device),),
        values,
    )


@requirement("arguments/names-of-options", SHOULD, since="2026.12", source="pytorch/pytorch#185285")
def names_of_options(candidate: Candidate, lab: Lab) -> None:
    """Keyword arguments that are named like a checkpoint's own options reach the region.

    A module may well have an argument called `debug`. An implementation that takes it for itself changes the
    module's behaviour and its own.

    How: keep options apart from the region's arguments, such as in a first call that gives the second.
    """
    expect_like_plain(candidate, lab, named_like_options)


def without_arguments(device: torch.device) -> Region:
    """A region that takes nothing and works on parameters alone."""
    weight = sample(4, 8, device=device)
    return Region(lambda: weight.exp().sin(), parameters={"weight": weight})


@requirement("arguments/none-at-all", MUST, since="2026.12", source="pytorch/pytorch#33962")
def no_arguments(candidate: Candidate, lab: Lab) -> None:
    """A function without arguments is a region like any other.

    Closures that bind everything are common in training loops. No argument needs grad there, and there is
    none to find the device by.

    How: do not decide by the arguments whether there is something to differentiate.
    """
    expect_like_plain(candidate, lab, without_arguments)


class Squash:
    """A callable object with a method; both are regions."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply and squash."""
        return (x @ self.weight).tanh()

    def method(self, x: Tensor) -> Tensor:
        """The same, as a bound method."""
        return self(x)


def scaled_by(factor: float, x: Tensor) -> Tensor:
    """A function to bind the first argument of."""
    return (x * factor).sin()


def callables(device: torch.device) -> dict[str, Callable[..., Any]]:
    """What a user may pass as the function."""
    squash = Squash(sample(8, 8, device=device, seed=1))
    return {
        "a callable object": squash,
        "a bound method": squash.method,
        "a functools.partial": partial(scaled_by, 0.5),
        "a builtin": torch.tanh,
        "a module": seeded_module(lambda: nn.Linear(8, 8), device),
    }


def every_callable(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """One region for each kind of callable."""
    seen: dict[str, Tensor | None] = {}
    for name, function in callables(device).items():
        x = sample(4, 8, device=device)
        candidate.run(Region(function, (x,))).square().sum().backward()
        seen[f"gradient of the input of {name}"] = x.grad
    return seen


@requirement("arguments/callables", MUST, since="2026.12", source="pytorch/pytorch#52422")
def any_callable(candidate: Candidate, lab: Lab) -> None:
    """The function may be any callable: an object, a bound method, a partial, a builtin, a module.

    An implementation that looks at `__name__`, `__code__` or a signature fails for those that have none.

    How: call it, and ask nothing of it.
    """
    expect_program_like_plain(candidate, lab, every_callable)


def some_are_none(device: torch.device) -> Region:
    """A region with None among its arguments, as for an absent mask."""

    def attend(x: Tensor, mask: Tensor | None, bias: Tensor, cache: None) -> Tensor:
        expect_equal("None arrived as something else", (None, None), (mask, cache))
        return (x + bias).sin()

    bias = sample(8, device=device, seed=1)
    return Region(attend, (sample(4, 8, device=device), None, bias, None))


@requirement(
    "arguments/none-among-them",
    MAY,
    since="2026.12",
    capability="non-tensors",
    source="deepspeedai/DeepSpeed#598",
)
def none_among_arguments(candidate: Candidate, lab: Lab) -> None:
    """None among the arguments reaches the region as None, in its place.

    Absent masks and caches are passed so. Code that asks every argument for its size crashes; code that
    filters the Nones out shifts what follows.

    How: sort arguments by `isinstance(value, Tensor)` and keep the places.
    """
    expect_like_plain(candidate, lab, some_are_none)


class Settings:
    """An object that no pytree knows."""

    power = 2


def with_values(device: torch.device) -> Region:
    """A region with a string, a bool, numbers and an object of one's own among its arguments."""
    settings = Settings()

    def compute(x: Tensor, mode: str, flip: bool, count: int, scale: float, given: Settings) -> Tensor:
        expect_equal("another object arrived", True, given is settings)
        expect_equal(
            "a value arrived as another type", (str, bool, int), (type(mode), type(flip), type(count))
        )
        return (x.sin() if mode == "sin" else x.cos()) * scale * float(count * given.power)

    return Region(compute, (sample(4, 8, device=device), "sin", True, 3, 0.5, settings))


@requirement(
    "arguments/values-that-are-no-tensors",
    MAY,
    since="2026.12",
    capability="non-tensors",
    source="pytorch/pytorch#52422",
)
def values_that_are_no_tensors(candidate: Candidate, lab: Lab) -> None:
    """Arguments that are no tensors reach the region as the same objects in both runs.

    Modes, sizes and configuration objects steer what the region does. Copied, or turned into tensors, they
    steer it differently in the recompute.

    How: keep the objects themselves beside the tensors.
    """
    expect_like_plain(candidate, lab, with_values)


def with_indices(device: torch.device) -> Region:
    """A region with integer and bool tensors among its inputs: an embedding with a mask."""
    table = sample(10, 8, device=device)
    index = torch.arange(12, device=device).reshape(3, 4) % 10
    keep = index % 3 != 0
    return Region(
        lambda index, keep, x: (table[index] * keep.unsqueeze(-1) * x).sin(),
        (index, keep, sample(8, device=device, seed=1)),
        parameters={"table": table},
    )


@requirement("arguments/integer-and-bool-tensors", MUST, since="2026.12", source="deepspeedai/DeepSpeed#1376")
def integer_and_bool_tensors(candidate: Candidate, lab: Lab) -> None:
    """Integer and bool tensors among the inputs arrive with their dtype and values, in both runs.

    Token ids and masks are inputs of regions. Stored in a floating-point buffer, or asked to require grad,
    they raise or index the wrong rows.

    How: detach and mark as requiring grad only what does require grad.
    """
    expect_like_plain(candidate, lab, with_indices)


@requirement("arguments/callers-tensors-left-alone", MUST, since="2026.12", source="pytorch/pytorch#23822")
def callers_tensors_left_alone(candidate: Candidate, lab: Lab) -> None:
    """A run leaves the tensors that the caller passed as they were: `requires_grad` and attributes.

    Preparing inputs in place is quick to write, and the caller's tensor then needs a gradient for ever, or
    lost the attribute that a sharded parameter carries.

    How: work on detached tensors, never on the caller's.
    """
    trained, frozen = lab.tensor(4, 8), lab.tensor(4, 8, grad=False, seed=1)
    before = [(tensor.requires_grad, dict(tensor.__dict__)) for tensor in (trained, frozen)]
    candidate.run(Region(lambda a, b: (a * b).sin(), (trained, frozen))).sum().backward()
    after = [(tensor.requires_grad, dict(tensor.__dict__)) for tensor in (trained, frozen)]
    expect_equal("the caller's tensors were changed", before, after)


def nothing_but_numbers(device: torch.device) -> Region:
    """A region that takes no tensor, and makes one of a number."""
    return Region(lambda count, name: (torch.arange(count, device=device), name, count + 1), (4, "rows"))


@requirement(
    "arguments/no-tensors", MAY, since="2026.12", capability="non-tensors", source="pytorch/pytorch#52422"
)
def no_tensors(candidate: Candidate, lab: Lab) -> None:
    """A region without any tensor that needs grad runs and gives what the function gives.

    Position tables and masks are computed in regions that were wrapped with everything else. There is
    nothing to differentiate and nothing to recompute.

    How: return what the function returned; there is nothing to hook.
    """
    expect_like_plain(candidate, lab, nothing_but_numbers)
