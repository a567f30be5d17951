"""values: whatever the outputs are like, and whatever becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, sample
from ckpt_conformance.standard.compare import expect_like_plain, expect_program_like_plain, gradients_of
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, SHOULD, requirement


def three_outputs(device: torch.device) -> Region:
    """Three outputs of different shapes, each with a gradient of its own."""
    x, weight = sample(4, 8, device=device), sample(8, 6, device=device, seed=1)
    return Region(
        lambda x: ((x @ weight).tanh(), x.exp(), (x * x).sum(dim=1)), (x,), parameters={"weight": weight}
    )


@requirement("values/several-outputs", MUST, since="2026.12", source="pytorch/pytorch#11093")
def several_outputs(candidate: Candidate, lab: Lab) -> None:
    """Every output of a region carries its gradient back.

    Transformer layers return hidden states with attention weights or router logits. A backward through the
    first output alone drops the auxiliary losses, and the main one hides it.

    How: go back through all outputs that got a gradient, in one backward.
    """
    expect_like_plain(candidate, lab, three_outputs)


def only_the_second_output_used(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A loss on the second of three outputs."""
    region = three_outputs(device)
    results = candidate.run(region)
    results[1].square().sum().backward()
    return gradients_of(x=region.args[0], weight=region.parameters["weight"])


def zero_where_missing(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """The same, with a missing gradient counted as the zeros that it stands for."""
    seen = only_the_second_output_used(candidate, device)
    return {name: torch.zeros(8, 6, device=device) if grad is None else grad for name, grad in seen.items()}


@requirement("values/unused-output", MUST, since="2026.12", source="RobinBruegger/RevTorch#1")
def unused_output(candidate: Candidate, lab: Lab) -> None:
    """Outputs that are not part of the loss change nothing for those that are.

    Attention weights are returned and mostly ignored. Their gradient arrives as None: code that drops the
    Nones before pairing gradients with outputs gives one output's gradient to another.

    How: do not materialize missing gradients, and pair what came by place.
    """
    expect_program_like_plain(candidate, lab, zero_where_missing)


@requirement(
    "values/unused-parameter-gets-no-gradient", SHOULD, since="2026.12", source="allenai/longformer#63"
)
def unused_parameter_gets_no_gradient(candidate: Candidate, lab: Lab) -> None:
    """A parameter that only an unused output depends on has no gradient, rather than one of zeros.

    Optimizers skip a parameter without a gradient; one of zeros still decays the weight and moves the
    moments. An autograd function is given zeros for what did not come unless it asks for None.

    How: `ctx.set_materialize_grads(False)`, and go back through the outputs that got a gradient only.
    """
    expect_program_like_plain(candidate, lab, only_the_second_output_used)


def mixed_outputs(device: torch.device) -> Region:
    """Outputs that need grad, that stem from a frozen input, and that were detached inside."""
    trained, frozen = sample(4, 8, device=device), sample(4, 8, device=device, grad=False, seed=1)
    return Region(lambda a, b: (a.sin(), b.exp(), a.cos().detach()), (trained, frozen))


@requirement(
    "values/requires-grad-of-outputs",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#7617", "pytorch/pytorch#124725"),
)
def requires_grad_of_outputs(candidate: Candidate, lab: Lab) -> None:
    """Each output requires grad exactly where the plain run's does, also when it was detached inside.

    Code downstream asks `requires_grad`: to build a loss, to skip a branch, to log. An autograd function
    marks all of its outputs or none; a detached target that requires grad is trained on.

    How: run the region with its graph; an autograd function has to mark what is not differentiable.
    """
    expect_like_plain(candidate, lab, mixed_outputs)


def scaled_under_no_grad(device: torch.device) -> Region:
    """A normalisation whose scale is computed without gradients."""

    def normalize(x: Tensor) -> Tensor:
        with torch.no_grad():
            scale = x.square().mean().add(1.0).rsqrt()
        return x.sin() * scale

    return Region(normalize, (sample(4, 8, device=device),))


@requirement(
    "values/no-grad-block-inside", MUST, since="2026.12", source="Lightning-AI/pytorch-lightning#19267"
)
def no_grad_block_inside(candidate: Candidate, lab: Lab) -> None:
    """What a region computes in a no_grad block of its own is a constant in the recompute too.

    Straight-through estimators, running scales and quantizers do this. A recompute that insists on grad mode
    differentiates through the constant.

    How: turn grad mode on once, before the region runs again, and leave it to the region from there.
    """
    expect_like_plain(candidate, lab, scaled_under_no_grad)


SAVES_ITS_OUTPUT: Mapping[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "softmax": lambda x: torch.softmax(x, dim=-1),
    "exp": torch.exp,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "sqrt": lambda x: torch.sqrt(x.abs() + 1.0),
}
"""Operations whose backward reads their own output."""


def ends_in(operation: Callable[[Tensor], Tensor], device: torch.device) -> Region:
    """A linear layer and an operation."""
    weight = sample(8, 8, device=device, grad=False, seed=1)
    return Region(lambda x: operation(x @ weight), (sample(4, 8, device=device),))


@requirement(
    "values/last-operation-saves-its-output", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649"
)
def last_operation_saves_its_output(candidate: Candidate, lab: Lab) -> None:
    """A region may end in an operation that saves its own output: tanh, softmax, exp, relu, sigmoid, sqrt.

    The output is then both what the caller holds and what the region's own backward reads. Where it is
    discarded and brought back, moving the recomputed memory away (a swap) leaves that backward with nothing.

    How: share the recomputed storage between the two, and let both keep it alive.
    """
    for operation in SAVES_ITS_OUTPUT.values():
        expect_like_plain(candidate, lab, partial(ends_in, operation))


def ends_in_rrelu(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A region whose last operation draws the noise that its backward reads.

    Between the passes the memory that the forward's noise lay in is filled with NaN: a recompute that leaves
    the noise undrawn must not find it there by chance.
    """
    x = sample(4, 8, device=device)
    result = candidate.run(Region(lambda x: torch.rrelu(x.sin() * 2.0, training=True), (x,)))
    del_later = [torch.full_like(x, torch.nan) for _ in range(64)]
    del del_later
    result.sum().backward()
    return gradients_of(x=x)


@requirement(
    "values/last-operation-fills-what-it-saved", MUST, since="2026.12", source="pytorch/pytorch#193671"
)
def last_operation_fills_what_it_saved(candidate: Candidate, lab: Lab) -> None:
    """A region may end in an operation that fills a tensor after having saved it, as rrelu does its noise.

    A recompute that stops as soon as the last tensor was saved stops before the kernel has run: the noise is
    whatever lay in memory, and the gradients are NaN or plausible.

    How: stop after the operation that saved the last tensor, not in the middle of it, or not at all.
    """
    expect_program_like_plain(candidate, lab, ends_in_rrelu)


def ends_in_a_scalar(device: torch.device) -> Region:
    """A region that computes its own loss, from another scalar."""
    return Region(lambda x: x.square().mean().exp().sqrt(), (sample(4, 8, device=device),))


@requirement("values/scalar-output", MUST, since="2026.12", source="pytorch/pytorch#7617")
def scalar_output(candidate: Candidate, lab: Lab) -> None:
    """A region may return a tensor without dimensions, and save such tensors on its way.

    Chunked losses are checkpointed just so. A tensor of no dimensions is no Python number: it has a graph.

    How: decide by type, never by the number of dimensions.
    """
    expect_like_plain(candidate, lab, ends_in_a_scalar)
