"""arguments: what comes out of a region."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, sample
from ckpt_conformance.standard.compare import expect_like_plain, expect_program_like_plain, gradients_of
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, requirement


class Pair(NamedTuple):
    """A named tuple as modules return it."""

    hidden: Tensor
    extra: dict[str, Any]


def returns_a_tree(device: torch.device) -> Region:
    """A region that returns a named tuple with a dictionary and a list in it."""
    return Region(
        lambda x: Pair(x.sin(), {"all": [x.exp(), (x.cos(),)], "last": x.tanh()}),
        (sample(4, 8, device=device),),
    )


@requirement(
    "arguments/nested-outputs",
    MAY,
    since="2026.12",
    capability="output-containers",
    source="pytorch/pytorch#52422",
)
def nested_outputs(candidate: Candidate, lab: Lab) -> None:
    """Nested containers that the region returns keep their types, order and gradients.

    Model outputs are dictionaries and named tuples. An autograd function gives flat tuples of tensors only.

    How: flatten the output inside, unflatten it outside; or keep the original output and hook its graph.
    """
    expect_like_plain(candidate, lab, returns_a_tree)


@dataclass
class Output:
    """An output as users write it."""

    hidden: Tensor
    logits: Tensor


def join_output(output: Output) -> Tensor:
    """The consumer of a dataclass: saves both tensors."""
    return output.hidden.sin() + output.logits.cos()


def dataclass_output(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A region that returns a dataclass."""
    x = sample(4, 8, device=device)
    result = candidate.run(Region(lambda x: Output(x.exp(), x.tanh()), (x,)), join_output)
    expect_equal("the tensors of a returned dataclass lost their graph", True, result.requires_grad)
    result.sum().backward()
    return gradients_of(x=x) | {"result": result.detach()}


@requirement(
    "arguments/dataclass-output",
    MAY,
    since="2026.12",
    capability="output-containers",
    source="pytorch/pytorch#124725",
)
def dataclass_outputs(candidate: Candidate, lab: Lab) -> None:
    """Tensors in a dataclass that the region returns require grad and carry their gradients.

    No pytree looks into a dataclass. Where the forward ran without a graph, the tensors in it are constants,
    and the loss has no gradient at all.

    How: run the forward with its graph; an autograd function must refuse outputs that it cannot look into.
    """
    expect_program_like_plain(candidate, lab, dataclass_output)


def returns_values(device: torch.device) -> Region:
    """A region that returns a string, a number and None beside a tensor."""
    return Region(lambda x: (x.sin(), "layer 3", 7, None, True), (sample(4, 8, device=device),))


@requirement(
    "arguments/outputs-that-are-no-tensors",
    MAY,
    since="2026.12",
    capability="non-tensors",
    source="pytorch/pytorch#52422",
)
def outputs_that_are_no_tensors(candidate: Candidate, lab: Lab) -> None:
    """Strings, numbers and None that the region returns arrive unchanged, in their places.

    Layers return None for an absent cache. Code that keeps tensors only shortens the tuple, and the caller's
    unpacking gives one thing the name of another.

    How: give back everything that the function returned.
    """
    expect_like_plain(candidate, lab, returns_values)


def returns_indices(device: torch.device) -> Region:
    """A region that returns an argmax and a mask beside activations."""
    return Region(lambda x: (x.argmax(dim=-1), x.sin() * x.max(), x > 0), (sample(4, 8, device=device),))


@requirement("arguments/integer-outputs", MUST, since="2026.12", source="deepspeedai/DeepSpeed#1376")
def integer_outputs(candidate: Candidate, lab: Lab) -> None:
    """Integer and bool tensors that the region returns keep dtype and values, and need no grad.

    Routers return the chosen experts and a mask. They come first as often as last, and there is no gradient
    for them to come back.

    How: go by each output's own `requires_grad`.
    """
    expect_like_plain(candidate, lab, returns_indices)


class Sink:
    """Collects what regions leave in it."""

    def __init__(self) -> None:
        self.calls = 0

    def note(self, _x: Tensor) -> None:
        """Count and return nothing."""
        self.calls += 1

    def note_emptily(self, _x: Tensor) -> tuple[()]:
        """Count and return an empty tuple."""
        self.calls += 1
        return ()


def returns_none(device: torch.device) -> Region:
    """A region that returns nothing."""
    return Region(Sink().note, (sample(4, 8, device=device),))


def returns_empty(device: torch.device) -> Region:
    """A region that returns an empty tuple."""
    return Region(Sink().note_emptily, (sample(4, 8, device=device),))


@requirement(
    "arguments/nothing-returned",
    MAY,
    since="2026.12",
    capability="non-tensors",
    source="huggingface/transformers#46572",
)
def nothing_returned(candidate: Candidate, lab: Lab) -> None:
    """A region may return None or an empty tuple, and the caller gets just that.

    Layers that only write to a cache return nothing. Code that wants a tensor to hook crashes there.

    How: with nothing to differentiate, give back what the function gave.
    """
    expect_like_plain(candidate, lab, returns_none)
    expect_like_plain(candidate, lab, returns_empty)
