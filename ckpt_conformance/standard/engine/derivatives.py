"""Other ways to differentiate: right, or clearly refused."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.standard.compare import (
    CLEAR_ERRORS,
    expect_program_like_plain,
    gradients_of,
    weighted_loss,
)
from ckpt_conformance.standard.engine.probe import backward, leaves, region
from ckpt_conformance.standard.evidence import expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, requirement


@requirement(
    "engine/autograd-grad", MAY, since="2026.12", source="pytorch/pytorch#4594", capability="autograd-grad"
)
def autograd_grad(candidate: Candidate, lab: Lab) -> None:
    """`torch.autograd.grad` through a region gives the plain gradients of input and parameter, or refuses.

    A nested `.backward()` accumulates into `.grad` what the caller asked to be returned: silently missing
    gradients here, stray ones there.

    How: keep the original graph, or check `torch.autograd._is_checkpoint_valid()` and raise.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        loss = weighted_loss(which.run(region(x, weight)))
        assert loss is not None
        by_input, by_weight = torch.autograd.grad(loss, (x, weight))
        return {"gradient of input": by_input, "gradient of weight": by_weight, **gradients_of(x=x, w=weight)}

    expect_program_like_plain(candidate, lab, program)


@requirement("engine/inputs", MAY, since="2026.12", source="pytorch/pytorch#4594", capability="inputs")
def inputs(candidate: Candidate, lab: Lab) -> None:
    """`backward(inputs=...)` accumulates into those leaves alone, as in the plain run, or refuses.

    Alternating updates ask for one network's gradients and must not touch the other's.

    How: keep the original graph, or check `torch.autograd._is_checkpoint_valid()` and raise.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        backward(which.run(region(x, weight)), inputs=[x])
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)


@requirement(
    "engine/second-backward",
    MAY,
    since="2026.12",
    source="openai/guided-diffusion#144",
    capability="retain-graph",
)
def second_backward(candidate: Candidate, lab: Lab) -> None:
    """A second backward over a retained graph adds the same gradients again, or is refused.

    Several losses on one graph are common; a second pass on stale or emptied values is silently wrong.

    How: recompute again, with the state of the forward.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        result = which.run(region(x, weight))
        backward(result, retain_graph=True)
        backward(result)
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)


@requirement("engine/freed-graph", MUST, since="2026.12", source="openai/guided-diffusion#144")
def freed_graph(candidate: Candidate, lab: Lab) -> None:
    """A second backward over a graph that was not retained raises, as it does plainly, and adds nothing.

    It is a mistake of the caller's that autograd has always named. A region that recomputes what is gone
    counts the gradient twice without a word.

    How: keep the inputs as saved tensors, which raise once they were freed.
    """
    x, weight = leaves(lab)
    result = candidate.run(region(x, weight), _saving_nothing)
    backward(result)
    try:
        backward(result)
    except CLEAR_ERRORS:
        return
    violated("a second backward went through", expected="an error: the graph was freed", found="none")


def _saving_nothing(output: Tensor) -> Tensor:
    """A consumer whose own backward would not notice that the graph was freed."""
    return -output


@requirement(
    "engine/double-backward",
    MAY,
    since="2026.12",
    source=("pytorch/pytorch#90105", "pytorch/pytorch#4594"),
    capability="double-backward",
)
def double_backward(candidate: Candidate, lab: Lab) -> None:
    """With create_graph the second derivative equals the plain run's, or the region refuses.

    Gradient penalties train on it. An implementation that returns a first derivative without a graph drops
    the penalty silently.

    How: keep the original graph; or raise where grad is on in backward.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        loss = weighted_loss(which.run(region(x, weight)))
        assert loss is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backward with create_graph, about reference cycles
            loss.backward(create_graph=True)
        first = x.grad
        assert first is not None
        second = None
        if first.requires_grad:
            (second,) = torch.autograd.grad(first.square().sum(), x, allow_unused=True)
        x.grad = weight.grad = None
        return {"first derivative": first.detach(), "second derivative": second}

    expect_program_like_plain(candidate, lab, program)


@requirement(
    "engine/forward-ad",
    MAY,
    since="2026.12",
    source="pytorch/pytorch#90105",
    capability="forward-ad",
    slow="the first dual tensor of a process makes torch import its decompositions",
)
def forward_mode(candidate: Candidate, lab: Lab) -> None:
    """A forward-mode tangent goes through a region as in the plain run, or the region refuses.

    Dropped, a Jacobian-vector product is zero: a number like any other.

    How: run the region's operations themselves on the dual tensors; a custom function needs `jvp` or raises.
    """
    expect_same_tensor("the tangent", _tangent(PLAIN, lab), _tangent(candidate, lab))


def _tangent(which: Candidate, lab: Lab) -> Tensor | None:
    x, weight = leaves(lab)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(which.run(region(dual, weight))).tangent
        return None if tangent is None else tangent.detach().clone()


@requirement("engine/usable-after-a-refusal", MUST, since="2026.12", source="pytorch/pytorch#4594")
def usable_after_a_refusal(candidate: Candidate, lab: Lab) -> None:
    """After autograd.grad through a region, worked or refused, the next ordinary backward is right.

    A refusal that comes after a flag was set, or after half of the work, breaks the step that recovers.

    How: refuse before anything is done; put flags back in `finally`.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        _try_grad(which, lab)
        backward(which.run(region(x, weight)))
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)


def _try_grad(which: Candidate, lab: Lab) -> None:
    x, weight = leaves(lab)
    loss = weighted_loss(which.run(region(x, weight)))
    assert loss is not None
    try:
        torch.autograd.grad(loss, x)
    except Exception as error:  # noqa: BLE001 - whether it may refuse, and how, is another requirement
        del error
