"""What custom functions may save, and how they may read it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.compare import expect_program_like_plain, gradients_of
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.recompute.probe import backward
from ckpt_conformance.standard.registry import MUST, SHOULD, requirement


class _ReadsTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (first,) = ctx.saved_tensors
        (second,) = ctx.saved_tensors
        given: Tensor = gradient * (first + second).mul(0.5).cos()
        return given


@requirement(
    "recompute/saved-tensors-read-twice",
    SHOULD,
    since="2026.12",
    source=("state-spaces/mamba#1021", "stanford-futuredata/stk#7"),
)
def saved_tensors_read_twice(candidate: Candidate, lab: Lab) -> None:
    """A custom function in the region may read its saved tensors twice in one backward.

    `ctx.saved_tensors` reads like an attribute, and kernels' authors read it more than once. Each access
    unpacks again; an implementation that gave the value away the first time fails in published layers.

    How: recompute again, or keep the value until the backward of that node is over.
    """

    def program(which: Candidate, _device: torch.device) -> dict[str, Tensor | None]:
        leaf = lab.tensor(4, 8)
        backward(which.run(Region(lambda x: _ReadsTwice.apply(x * 2).exp(), (leaf,))))
        return gradients_of(input=leaf)

    expect_program_like_plain(candidate, lab, program)


@requirement("recompute/leaf-made-inside", MUST, since="2026.12", source="pytorch/pytorch#103726")
def leaf_made_inside(candidate: Candidate, lab: Lab) -> None:
    """A leaf that the region makes, and that a custom function saves, goes through like any tensor.

    Its gradient accumulator dies with the first run, and a saved variable that asks for it later meets an
    internal error.

    How: hand recomputed tensors back detached, without asking for their accumulators.
    """

    def program(which: Candidate, _device: torch.device) -> dict[str, Tensor | None]:
        leaf = lab.tensor(4, 8)

        def fn(x: Tensor) -> Tensor:
            made = torch.ones_like(x).mul(2).detach().requires_grad_()
            bent: Tensor = _ReadsOnce.apply(made)
            return bent * x.sin()

        backward(which.run(Region(fn, (leaf,))))
        return gradients_of(input=leaf)

    expect_program_like_plain(candidate, lab, program)


class _ReadsOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        given: Tensor = gradient * x.cos()
        return given


@requirement("recompute/identity-of-frozen-tensors", SHOULD, since="2026.12", source="pytorch/pytorch#127959")
def identity_of_frozen_tensors(candidate: Candidate, lab: Lab) -> None:
    """A tensor that needs no grad comes back from a custom function's save as the object it was.

    Wrapped and quantized weights carry attributes that the backward reads; a needless copy has lost them.

    How: detach recomputed tensors only where they have a graph.
    """
    frozen = lab.tensor(4, 8, grad=False)
    seen: list[bool] = []

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, by: Tensor) -> Tensor:
            ctx.save_for_backward(by)
            return x * by

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            (by,) = ctx.saved_tensors
            seen.append(by is frozen)
            return gradient * by, None

    backward(candidate.run(Region(lambda x: Scale.apply(x, frozen).sin(), (lab.tensor(4, 8),))))
    expect_equal("the saved frozen tensor is the object that was saved", [True], seen)
