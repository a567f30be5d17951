"""Saved-tensor hooks of others, and saving on the CPU, around a region and inside it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.compare import expect_program_like_plain, gradients_of
from ckpt_conformance.standard.engine.probe import backward, leaves, region
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement

Context: TypeAlias = Callable[[], contextlib.AbstractContextManager[Any]]


def _halves() -> contextlib.AbstractContextManager[None]:
    """Hooks that pack a tensor as two halves of itself, so that skipping one of the two hooks shows."""
    return saved_tensors_hooks(
        lambda tensor: (tensor.detach() / 2,) * 2, lambda packed: packed[0] + packed[1]
    )


def _expect_right_around(candidate: Candidate, lab: Lab, context: Context) -> None:
    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        with context():
            result = which.run(region(x * 1, weight))
        backward(result)
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)


def _expect_right_inside(candidate: Candidate, lab: Lab, context: Context) -> None:
    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)

        def fn(given: Tensor) -> Tensor:
            product = given @ weight
            with context():
                bent = product.tanh()
            return bent.exp()

        backward(which.run(Region(fn, (x,), parameters={"weight": weight})))
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)


@requirement("engine/saved-tensor-hooks-around", MUST, since="2026.12", source="pytorch/pytorch#190581")
def saved_tensor_hooks_around(candidate: Candidate, lab: Lab) -> None:
    """Saved-tensor hooks that are active around a region leave its gradients right.

    Offloading, compression and profiling are written as such hooks, and people combine them with
    checkpointing.

    How: save the region's inputs through autograd, so that the hooks see them, and recompute with hooks of
    one's own on top.
    """
    _expect_right_around(candidate, lab, _halves)


@requirement("engine/saved-tensor-hooks-inside", MUST, since="2026.12", source="pytorch/pytorch#190581")
def saved_tensor_hooks_inside(candidate: Candidate, lab: Lab) -> None:
    """Saved-tensor hooks that the region itself enters leave its gradients right.

    An offloaded layer inside a checkpointed block does so. The inner hooks own what is saved under them; both
    runs enter them.

    How: expect that some of the saved tensors of a region never reach one's own hooks.
    """
    _expect_right_inside(candidate, lab, _halves)


@requirement(
    "engine/save-on-cpu",
    MUST,
    since="2026.12",
    source=("meta-pytorch/torchtune#2456", "pytorch/pytorch#190581"),
)
def saving_on_cpu(candidate: Candidate, lab: Lab) -> None:
    """`save_on_cpu` around a region and inside it leaves its gradients right, on the tensors' own device.

    It is torch's own way to offload what checkpointing leaves, the regions' inputs.

    How: leave hooks that are active alone, and bring a tensor back to the device it came from.
    """
    _expect_right_around(candidate, lab, save_on_cpu)
    _expect_right_inside(candidate, lab, save_on_cpu)


@requirement("engine/saved-tensor-hooks-paired", MUST, since="2026.12", source="pytorch/pytorch#82776")
def saved_tensor_hooks_paired(candidate: Candidate, lab: Lab) -> None:
    """The hook stack is the caller's again after forward and after backward.

    A region's own hooks that stay on the stack take over every tensor that the rest of the model saves.

    How: enter the hooks in a `with` block, also for the recompute.
    """
    x, weight = leaves(lab)
    packed: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = candidate.run(region(x, weight))
        backward(result)
        packed.clear()
        x.sin()
    within = len(packed)
    x.sin()
    after = len(packed) - within
    _take_off_what_is_left()
    expect_equal("tensors that the caller's hook packs for one sine after the region", 1, within)
    expect_equal("tensors that it packs once it was left", 0, after)


def _take_off_what_is_left() -> None:
    while torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        torch._C._autograd._pop_saved_tensors_default_hooks()
