"""The floor of live memory between iterations: it does not grow, and is no higher than the plain run's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.instruments.watch import LiveBytes
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, SHOULD, requirement
from ckpt_conformance.standard.retention.probe import KeepsItsOutput, backward, quiet

ACTIVATION = 4096
"""Elements of one activation: large enough that a kept generator's state (5 kB) is not mistaken for one."""
BYTES = 4 * ACTIVATION
STEPS, WARM_UP = 6, 2

Body = Callable[[Tensor, Tensor], Tensor]
"""A region's function of its input and a weight."""


@contextlib.contextmanager
def _stepped(candidate: Candidate, lab: Lab, body: Body) -> Iterator[tuple[list[int], LiveBytes]]:
    """Six steps: bytes that live after each, and all that they made; what was there before is not counted."""
    leaf, weight = lab.tensor(ACTIVATION), lab.tensor(ACTIVATION, seed=1)
    floors = []
    with quiet(candidate, lab), LiveBytes() as live:
        for _ in range(STEPS):
            backward(candidate.run(Region(lambda x: body(x, weight), (leaf * 1,), {}, {"weight": weight})))
            leaf.grad = weight.grad = None
            floors.append(live.now())
        yield floors, live


def _floors(candidate: Candidate, lab: Lab, body: Body) -> list[int]:
    with _stepped(candidate, lab, body) as (floors, _):
        return floors


def _holders(candidate: Candidate, lab: Lab, body: Body) -> tuple[str, ...]:
    """Who holds what lives after the steps, in a run of its own: the plain steps' own is gone by then."""
    with _stepped(candidate, lab, body) as (_, live):
        return lab.trace(live.tensors)


def _expect_floor_like_plain(candidate: Candidate, lab: Lab, body: Body) -> None:
    plain, found = _floors(PLAIN, lab, body), _floors(candidate, lab, body)
    if found[-1] >= plain[-1] + BYTES:
        violated(
            "more memory lives between iterations than in the plain run",
            expected=f"bytes after each step as in the plain run: {plain}",
            found=f"{found}: {(found[-1] - plain[-1]) / BYTES:.3g} activations more after {STEPS} steps",
            trace=_holders(candidate, lab, body),
        )


def _cycle(x: Tensor, weight: Tensor) -> Tensor:
    output: Tensor = KeepsItsOutput.apply(_body(x, weight))
    return output


def _body(x: Tensor, weight: Tensor) -> Tensor:
    return (x * weight).sin().exp()


@requirement(
    "retention/no-growth-between-steps",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#82776", "pytorch/pytorch#80151", "pytorch/pytorch#154642"),
)
def no_growth_between_steps(candidate: Candidate, lab: Lab) -> None:
    """After two steps to warm up, no step leaves more live tensor bytes behind than the one before.

    A constant amount per step is how a leak looks: a run that fitted at step 10 is out of memory at step
    10,000. Collecting garbage hides it only where the cycle is Python's own, and then costs a pause.

    How: after backward nothing of the step is reachable from the function, the module or a global: no
    self-referencing wrapper, no recomputed tensor stored with its graph, no registry without removal.
    """
    floors = _floors(candidate, lab, _body)
    growth = [after - before for before, after in zip(floors[WARM_UP:], floors[WARM_UP + 1 :], strict=False)]
    if min(growth) > 0:
        violated(
            "live memory grows with every step",
            expected=f"no growth after {WARM_UP} steps",
            found=f"{sum(growth) / len(growth):.0f} bytes per step; after each step {floors}",
            trace=_holders(candidate, lab, _body),
        )


@requirement("retention/floor-like-plain", MUST, since="2026.12", source="NVIDIA/Megatron-LM#6339")
def floor_like_plain(candidate: Candidate, lab: Lab) -> None:
    """Between iterations no more tensor bytes live than in the plain run, gradients set to None in both.

    What lives between iterations is there at the next one's peak. A detached input, its gradient or the last
    recomputed activations, kept until the next use of the region, is memory that checkpointing was to save.

    How: let the backward itself drop the inputs, the recomputed graph and the random state it kept.
    """
    _expect_floor_like_plain(candidate, lab, _body)


@requirement(
    "retention/floor-with-a-context-cycle", SHOULD, since="2026.12", source="NVIDIA/Megatron-LM#6339"
)
def floor_with_a_context_cycle(candidate: Candidate, lab: Lab) -> None:
    """Where the region's own function and output form a cycle, no more lives than the plain run's cycle.

    The plain run keeps the cycle's output; a recompute that runs the function to its end makes a second
    cycle, and one on detached leaves keeps those too. It is the region's fault made larger.

    How: keep the original graph, and stop the recompute as soon as everything it saved is there.
    """
    _expect_floor_like_plain(candidate, lab, _cycle)


class _SavesItsOutputLast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        output = x.exp()
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (output,) = ctx.saved_tensors
        given: Tensor = gradient * output
        return given


def _ends_in_custom_function(x: Tensor, weight: Tensor) -> Tensor:
    output: Tensor = _SavesItsOutputLast.apply((x * weight).sin())
    return output


@requirement(
    "retention/custom-function-that-saves-its-output-last",
    MUST,
    since="2026.12",
    source="pytorch/pytorch#161186",
)
def custom_function_that_saves_its_output_last(candidate: Candidate, lab: Lab) -> None:
    """A region that ends in a custom function which saves its own output leaves nothing behind.

    A recompute that stops early raises from within the function's save, past the clean-up of its half-built
    node; the node and its output then hold each other, one activation more with each step.

    How: stop the recompute only between operations, or hand back detached tensors from the pack hook so that
    no half-built node refers to itself.
    """
    _expect_floor_like_plain(candidate, lab, _ends_in_custom_function)
