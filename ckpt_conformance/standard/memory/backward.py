"""What a backward costs, and when it lets go of what it recomputed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ckpt_conformance.candidate import PLAIN, Candidate, Style
from ckpt_conformance.instruments.memory import MemoryTimeline, record_memory
from ckpt_conformance.instruments.watch import LiveBytes, StorageWatch
from ckpt_conformance.regions import Consumer, Region, pass_through, sample, seeded_module
from ckpt_conformance.standard.compare import backward_from
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.memory.probe import (
    ACTIVATION,
    SLACK,
    STEPS,
    activation,
    at_peak,
    expect_at_most,
    steps,
)
from ckpt_conformance.standard.registry import MUST, RECOMPUTING, SHOULD, requirement

_CONSUMED = 3
"""So many activations may be alive where a backward uses one: it, and those before and after."""

Look: TypeAlias = Callable[[StorageWatch], None]
"""Looks at what is alive, in the middle of a backward."""

_KEPT = frozenset({Style.FUNCTION, Style.WRAPPER})
"""The styles in which the caller keeps the output and the region recomputes."""


@requirement(
    "memory/restoring-costs-one-activation", MUST, since="2026.12", styles=RECOMPUTING,
    devices=frozenset({"cpu"}), source="NVIDIA/Megatron-LM#3649",
)  # fmt: skip
def restoring_costs_one_activation(candidate: Candidate, lab: Lab) -> None:
    """A backward allocates one block of the output's size for the recompute, not two.

    Bringing an output back by allocating its old storage anew and copying the recomputed one into it doubles
    the largest activation, in the very moment that decides the peak.

    How: share the recomputed memory with the output's storage.
    """
    layer = seeded_module(lambda: nn.Linear(8, 333), lab.device)
    nbytes = 4 * 333 * 4
    plain = _backward(PLAIN, lab, Region(layer, (lab.tensor(4, 8),)), _weighed)
    found = _backward(candidate, lab, Region(layer, (lab.tensor(4, 8),)), _weighed)
    expect_at_most(
        f"blocks of the output's {nbytes} bytes in backward",
        plain.blocks(nbytes) + 1,
        found.blocks(nbytes),
        lambda: at_peak(found),
    )


@requirement(
    "memory/restoring-copies-nothing",
    SHOULD,
    since="2026.12",
    styles=RECOMPUTING,
    source="NVIDIA/Megatron-LM#3649",
)
def restoring_copies_nothing(candidate: Candidate, lab: Lab) -> None:
    """Neither forward nor backward copies an activation that was only to be shared.

    A copy of 4 GiB takes milliseconds of bandwidth for every region of every step, and a second allocation.

    How: detach and share; do not clone.
    """
    plain, found = _copies(PLAIN, lab), _copies(candidate, lab)
    expect_at_most(
        "copies of whole activations",
        len(plain),
        len(found),
        lambda: _counted(found),
    )


@requirement(
    "memory/freed-as-consumed", MUST, since="2026.12", styles=RECOMPUTING, source="pytorch/pytorch#77284"
)
def freed_as_consumed(candidate: Candidate, lab: Lab) -> None:
    """Recomputed activations are freed one after another as the backward uses them.

    A plain graph releases each saved tensor after its node ran. A recompute that keeps all until its end
    costs as much as no checkpointing, or more, since gradients come on top.

    How: hand a recomputed tensor over and forget it.
    """
    alive: list[int] = []
    trace: list[str] = []

    def look(watch: StorageWatch) -> None:
        alive.append(len(watch.alive()))
        if len(alive) == STEPS and alive[-1] > _CONSUMED:
            trace.extend(lab.trace(watch.tensors))

    _consume(candidate, lab, look)
    expect_at_most(
        f"activations alive, of {STEPS}, when the backward reaches the first",
        _CONSUMED,
        alive[-1],
        lambda: tuple(trace),
    )


@requirement(
    "memory/chain-peaks-at-one-region",
    MUST,
    since="2026.12",
    styles=RECOMPUTING,
    source="pytorch/pytorch#77284",
)
def chain_peaks_at_one_region(candidate: Candidate, lab: Lab) -> None:
    """A chain of regions peaks at its inputs and the intermediates of one region.

    A model has many regions, and the gain is their number. What one region leaves behind while the next is
    recomputed adds up to the plain run's peak.

    How: finish with a region's recomputed tensors before the next one's backward begins.
    """
    plain, found = _chain(PLAIN, lab), _chain(candidate, lab)
    expect_at_most("the peak in bytes of eight regions", plain.peak // 2, found.peak, lambda: at_peak(found))


@requirement(
    "memory/freed-after-partial-backward", SHOULD, since="2026.12", styles=_KEPT,
    source=("pytorch/pytorch#82482", "torch 2.13, checkpoint(use_reentrant=False) on the CPU"),
)  # fmt: skip
def freed_after_partial_backward(candidate: Candidate, lab: Lab) -> None:
    """After a backward from one of two outputs, what the recompute made for the other is freed.

    The graph of the other output is alive, as when its loss is only logged. Tensors that wait to be asked for
    stay until that graph dies.

    How: drop what was not asked for when the backward ends.
    """

    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        return steps(x), steps(x.cos())

    with record_memory(lab.device) as timeline, LiveBytes() as live:
        first, other = candidate.run(Region(fn, (activation(lab),)), pass_through)
        timeline.mark("forward done")
        backward_from(first)
        del first
    expect_at_most(
        "bytes left by a backward of one output",
        2 * ACTIVATION + SLACK,
        timeline.since("forward done").net,
        lambda: lab.trace(live.tensors),
    )
    del other


@requirement(
    "memory/not-kept-with-retain-graph", SHOULD, since="2026.12", styles=_KEPT, source="pytorch/pytorch#77284"
)
def not_kept_with_retain_graph(candidate: Candidate, lab: Lab) -> None:
    """A backward with retain_graph keeps the graph, not the recomputed activations.

    Several losses over one graph would otherwise pay for all activations after the first.

    How: recompute again for the next backward.
    """
    with record_memory(lab.device) as timeline, LiveBytes() as live:
        result = candidate.run(Region(steps, (activation(lab),)))
        timeline.mark("forward done")
        backward_from(result, retain_graph=True)
    left = timeline.since("forward done").net
    expect_at_most(
        "bytes left by a backward with retain_graph",
        2 * ACTIVATION + SLACK,
        left,
        lambda: lab.trace(live.tensors),
    )
    del result


class _Probe(torch.autograd.Function):
    """Saves its input, watches its storage at each run, and lets one look at the watch in each backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, watch: StorageWatch, look: Look) -> Tensor:
        watch.add("activation", x)
        ctx.save_for_backward(x)
        ctx.watch, ctx.look = watch, look
        return x * 1.5

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (saved,) = ctx.saved_tensors
        ctx.look(ctx.watch)
        return gradients[0] * (1.5 + 0 * saved), None, None


def _consume(candidate: Candidate, lab: Lab, look: Look) -> None:
    """A region of activations that are used one after another, with a look at each."""
    watch = StorageWatch()

    def fn(x: Tensor) -> Tensor:
        for _ in range(STEPS):
            x = _Probe.apply(x * 1, watch, look)
        return x

    backward_from(candidate.run(Region(fn, (lab.tensor(16),))))


class _Copies(TorchDispatchMode):
    """Notes the operations that copy at least one activation."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket in _COPYING and isinstance(result, Tensor) and result.nbytes >= ACTIVATION:
            self.seen.append(f"{func}: {result.nbytes} bytes")
        return result


_COPYING = frozenset({torch.ops.aten.copy_, torch.ops.aten.clone, torch.ops.aten._to_copy})


def _copies(candidate: Candidate, lab: Lab) -> list[str]:
    copies = _Copies()
    with copies:
        backward_from(candidate.run(Region(steps, (activation(lab),))))
    return copies.seen


def _weighed(output: Tensor) -> Tensor:
    """Saves the output, and is small: so that nothing else here has the output's size but its gradient."""
    return output @ sample(output.shape[-1], 1, device=output.device, seed=1)


def _backward(candidate: Candidate, lab: Lab, region: Region, consumer: Consumer) -> MemoryTimeline:
    result = candidate.run(region, consumer)
    with record_memory(lab.device) as timeline:
        backward_from(result)
    return timeline


def _chain(candidate: Candidate, lab: Lab) -> MemoryTimeline:
    x = activation(lab)
    with record_memory(lab.device) as timeline:
        hidden = x
        for _ in range(8):
            hidden = candidate.run(Region(steps, (hidden,)))
        backward_from(hidden)
        del hidden
    return timeline


def _counted(copies: list[str]) -> tuple[str, ...]:
    return tuple(f"{number} times {one}" for one, number in Counter(copies).items())
