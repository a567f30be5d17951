"""What nodes inside a region see, and what backward leaves on the leaves."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.compare import expect_program_like_plain, gradients_of
from ckpt_conformance.standard.engine.probe import Log, backward, expect_same_log, leaves, region
from ckpt_conformance.standard.evidence import expect_equal, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, SHOULD, requirement


@requirement("engine/accumulates-into-grad", MUST, since="2026.12", source="pytorch/pytorch#23822")
def accumulates_into_grad(candidate: Candidate, lab: Lab) -> None:
    """Gradients add to those that are there, in the same tensor, as in the plain run.

    Micro-batches add up; fused optimizers and reducers hold the `.grad` tensor itself, and a replaced one
    is never reduced.

    How: leave the accumulation to the engine.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        buffers = [torch.ones_like(x), torch.ones_like(weight)]
        x.grad, weight.grad = buffers
        backward(which.run(region(x, weight)))
        kept = [leaf.grad is buffer for leaf, buffer in zip((x, weight), buffers, strict=True)]
        same.append(kept)
        return gradients_of(input=x, weight=weight)

    same: list[list[bool]] = []
    expect_program_like_plain(candidate, lab, program)
    expect_equal("the gradients' tensors are those that were there (input, weight)", same[0], same[-1])


class _NotesNeeds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, frozen: Tensor, log: Log) -> Tensor:
        ctx.log = log
        ctx.save_for_backward(x, frozen)
        return x * frozen

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, frozen = ctx.saved_tensors
        ctx.log.append(f"needs {ctx.needs_input_grad[:2]}")
        return gradient * frozen, gradient * x if ctx.needs_input_grad[1] else None, None


@requirement("engine/needs-input-grad", MUST, since="2026.12", source="pytorch/pytorch#7617")
def needs_input_grad(candidate: Candidate, lab: Lab) -> None:
    """A custom function in the region sees in `needs_input_grad` what it sees in the plain run.

    Frozen weights are skipped by it. An implementation that makes all its detached inputs require grad
    computes gradients that nobody wants, which for a fine-tune is half of the backward.

    How: give each detached input the original's `requires_grad`.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        frozen = bench.tensor(4, 8, seed=1, grad=False)
        backward(
            which.run(Region(lambda x, by: _NotesNeeds.apply(x, by, log).sin(), (bench.tensor(4, 8), frozen)))
        )

    expect_same_log(candidate, lab, program)


class _NotesGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, log: Log) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.log = log
        ctx.save_for_backward(x)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> Any:
        (x,) = ctx.saved_tensors
        ctx.log.append(f"gradients there: {first is not None}, {second is not None}")
        total = torch.zeros_like(x)
        for gradient, factor in ((first, 2), (second, 3)):
            if gradient is not None:
                total = total + gradient * factor
        return total, None


@requirement("engine/undefined-gradients", SHOULD, since="2026.12", source="pytorch/pytorch#7617")
def undefined_gradients(candidate: Candidate, lab: Lab) -> None:
    """A custom function in the region gets None for an output that the loss does not use, as plainly.

    Zeros in its place cost a full backward of a branch that was switched off.

    How: go back from the outputs that got a gradient alone.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        def fn(x: Tensor) -> tuple[Tensor, Tensor]:
            first, second = _NotesGradients.apply(x, log)
            return first.sin(), second

        backward(which.run(Region(fn, (bench.tensor(4, 8),)), lambda pair: pair[0].exp()))

    expect_same_log(candidate, lab, program)


@requirement("engine/anomaly-mode", MUST, since="2026.12", source="pytorch/pytorch#90105")
def anomaly_mode(candidate: Candidate, lab: Lab) -> None:
    """Under anomaly detection a sound region gives the plain gradients, and a NaN in backward is still named.

    It is switched on when something is already wrong; a checkpoint that stumbles over it, or swallows what it
    finds, ends the hunt.

    How: nothing special: let the engine see the nodes, and let its exceptions through.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says on entry that it is slow
            with torch.autograd.detect_anomaly():
                backward(which.run(region(x, weight)))
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)
    _expect_nan_named(candidate, lab)


def _expect_nan_named(candidate: Candidate, lab: Lab) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the forward's traceback comes as a warning
            with torch.autograd.detect_anomaly():
                backward(candidate.run(Region(lambda x: (x * 0).sqrt() * 0 + x.exp(), (lab.tensor(4, 8),))))
    except RuntimeError as error:
        if "nan" not in str(error).lower():
            raise
        return
    violated("anomaly detection missed a NaN in a region's backward", expected="an error", found="none")


class _RunsARegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, run: Any) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            ctx.run()
        return gradient * 2 + x * 0, None


@requirement(
    "engine/backward-within-the-region",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#18568", "pytorch/pytorch#90105"),
)
def backward_within_the_region(candidate: Candidate, lab: Lab) -> None:
    """A function in the region may, in its own backward, run another region's whole forward and backward.

    Implicit layers and tiled losses do so. A lock held across the recompute and not reentrant, or one buffer
    for "the" recompute, hangs or mixes the two.

    How: hold no lock while the region's function or the engine runs, or make it reentrant and per region.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        inner_x, inner_weight = lab.tensor(4, 8, seed=3), lab.tensor(8, 8, seed=4)

        def run() -> None:
            backward(which.run(region(inner_x, inner_weight)))

        def fn(given: Tensor) -> Tensor:
            bent: Tensor = _RunsARegion.apply((given @ weight).sin(), run)
            return bent.exp()

        backward(which.run(Region(fn, (x,), parameters={"weight": weight})))
        return gradients_of(input=x, weight=weight, inner=inner_x, inner_weight=inner_weight)

    expect_program_like_plain(candidate, lab, program)
