"""values: parameters, modules and tensors that more than one piece of code uses."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, sample, seeded_module
from ckpt_conformance.standard.compare import expect_program_like_plain, gradients_of
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement


def one_module_twice_in_a_row(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """One layer as two regions, the second on the first one's result."""
    module = seeded_module(lambda: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()), device)
    x = sample(4, 8, device=device)
    parameters = dict(module.named_parameters())
    middle = candidate.run(Region(module, (x,), parameters=parameters))
    candidate.run(Region(module, (middle,), parameters=parameters)).sum().backward()
    return gradients_of(x=x, **{name.replace(".", "_"): p for name, p in parameters.items()})


@requirement(
    "values/one-module-in-two-regions",
    MUST,
    since="2026.12",
    source=("microsoft/FocalNet#4", "huggingface/trl#835", "allenai/longformer#63"),
)
def one_module_in_two_regions(candidate: Candidate, lab: Lab) -> None:
    """A module that is a region twice in a row gets the gradients of both uses.

    Universal transformers and shared blocks do this. Whatever an implementation keeps per module, instead of
    per use, is overwritten by the second use.

    How: keep all state of a use in an object of its own.
    """
    expect_program_like_plain(candidate, lab, one_module_twice_in_a_row)


def two_forwards_one_backward(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """One function as a region on two inputs, one loss, one backward."""
    weight = sample(8, 8, device=device)

    def layer(x: Tensor) -> Tensor:
        return (x @ weight).sigmoid()

    left, right = sample(4, 8, device=device, seed=1), sample(4, 8, device=device, seed=2)
    regions = [Region(layer, (x,), parameters={"weight": weight}) for x in (left, right)]
    first, second = [candidate.run(region) for region in regions]
    (first * second).sum().backward()
    return gradients_of(weight=weight, left=left, right=right)


@requirement("values/two-forwards-one-backward", MUST, since="2026.12", source="pytorch/pytorch#187437")
def two_forwards_then_one_backward(candidate: Candidate, lab: Lab) -> None:
    """One function run as a region on two inputs, then one backward: each use gets its own gradients.

    Contrastive and preference losses run one model on two inputs. A recompute that is remembered by function
    serves one input's activations to both.

    How: recompute each use from its own inputs; remember nothing by function.
    """
    expect_program_like_plain(candidate, lab, two_forwards_one_backward)


def parameter_in_and_outside(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A weight inside a region, and the same weight on the region's result."""
    weight, x = sample(8, 8, device=device), sample(4, 8, device=device, seed=1)
    region = Region(lambda x: (x @ weight).tanh(), (x,), parameters={"weight": weight})
    (candidate.run(region) @ weight).square().sum().backward()
    return gradients_of(weight=weight, x=x)


@requirement(
    "values/parameter-inside-and-outside",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#81296", "deepspeedai/DeepSpeed#2103"),
)
def parameter_inside_and_outside(candidate: Candidate, lab: Lab) -> None:
    """A parameter used inside a region and outside of it gets the sum of both gradients.

    Tied embeddings are the usual case. The outer use's gradient often arrives before the region is
    recomputed, and a candidate that assigns `.grad` in the recompute throws it away.

    How: only ever add to `.grad`; better, leave it to the engine.
    """
    expect_program_like_plain(candidate, lab, parameter_in_and_outside)


def loss_on_a_side_channel(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A region that puts a tensor into a dictionary outside, and a loss on that tensor too."""
    weight, x = sample(8, 8, device=device), sample(4, 8, device=device, seed=1)
    side: dict[str, Tensor] = {}

    def layer(x: Tensor) -> Tensor:
        hidden = x @ weight
        side["router loss"] = hidden.square().mean()
        return hidden.tanh()

    result = candidate.run(Region(layer, (x,), parameters={"weight": weight}))
    auxiliary = side["router loss"]
    if not auxiliary.requires_grad:
        violated(
            "a tensor that the region left outside has no graph",
            expected="requires_grad as in the plain run",
            found="requires_grad=False: its part of the loss trains nothing",
        )
    (result.sum() + auxiliary).backward()
    return gradients_of(weight=weight, x=x)


@requirement("values/side-channel-tensors", MUST, since="2026.12", source="huggingface/transformers#46572")
def side_channel_tensors(candidate: Candidate, lab: Lab) -> None:
    """A tensor that the region leaves in an object outside is part of the graph, as in the plain run.

    Router losses, encoder caches and hidden states are passed this way. Where the forward runs without a
    graph, such a tensor is a constant: the loss shows it, and it trains nothing.

    How: run the forward with its graph and hook what it saves.
    """
    expect_program_like_plain(candidate, lab, loss_on_a_side_channel)
