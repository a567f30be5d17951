"""What a forward costs, and which activations it leaves for the backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.instruments.memory import MemoryTimeline, record_memory
from ckpt_conformance.instruments.watch import LiveBytes
from ckpt_conformance.regions import Consumer, Region, keep_saved
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.memory.probe import (
    ACTIVATION,
    SLACK,
    activation,
    at_peak,
    expect_at_most,
    steps,
)
from ckpt_conformance.standard.registry import DISCARDING, MUST, RECOMPUTING, requirement


@requirement(
    "memory/activations-are-freed", MUST, since="2026.12", styles=RECOMPUTING,
    source=("pytorch/pytorch#160773", "deepspeedai/DeepSpeed#3779"),
)  # fmt: skip
def activations_are_freed(candidate: Candidate, lab: Lab) -> None:
    """Between forward and backward a region keeps its inputs and output, not its intermediates.

    This is what checkpointing is for. One that silently does nothing, or keeps a reference on the side, gives
    right gradients and runs out of memory.

    How: save the inputs; let everything else go when the forward ends.
    """
    _expect_saving(candidate, lab, Region(steps, (activation(lab),)))


@requirement(
    "memory/active-in-eval-mode",
    MUST,
    since="2026.12",
    styles=RECOMPUTING,
    source="huggingface/diffusers#9878",
)
def active_in_eval_mode(candidate: Candidate, lab: Lab) -> None:
    """A module in eval mode saves memory as well.

    Fine-tuning with frozen statistics and dropout off runs in eval mode and needs gradients all the same. A
    switch that looks at `module.training` turns checkpointing off unseen.

    How: look at the grad mode alone.
    """
    _expect_saving(candidate, lab, Region(_Steps().eval(), (activation(lab),)))


@requirement(
    "memory/nothing-under-no-grad",
    MUST,
    since="2026.12",
    styles=RECOMPUTING,
    source="huggingface/diffusers#10107",
)
def nothing_under_no_grad(candidate: Candidate, lab: Lab) -> None:
    """Under no_grad nothing is kept but the result, and the region runs as if plain.

    Validation runs through the same model. States and inputs kept for a backward that never comes are waste.

    How: call the function straight away where grad mode is off.
    """
    x = activation(lab)
    with torch.no_grad():
        plain, _ = _forward(PLAIN, lab, lambda: Region(steps, (x,)))
        found, _ = _forward(candidate, lab, lambda: Region(steps, (x,)))
        expect_at_most(
            "bytes kept by a forward under no_grad",
            plain.net,
            found.net,
            lambda: _kept(candidate, lab, Region(steps, (x,))),
        )


@requirement("memory/forward-peak", MUST, since="2026.12", styles=RECOMPUTING, source="pytorch/pytorch#77284")
def forward_peak(candidate: Candidate, lab: Lab) -> None:
    """The forward peaks no higher than a plain forward.

    Copies of inputs, a second run, or a graph that is built and thrown away cost memory where it is scarcest.

    How: run the region once, and keep references instead of copies.
    """
    x = activation(lab)
    plain, _ = _forward(PLAIN, lab, lambda: Region(steps, (x,)))
    found, _ = _forward(candidate, lab, lambda: Region(steps, (x,)))
    expect_at_most("the forward's peak in bytes", plain.peak + SLACK, found.peak, lambda: at_peak(found))


@requirement(
    "memory/discarding-frees-the-output",
    MUST,
    since="2026.12",
    styles=DISCARDING,
    source="NVIDIA/Megatron-LM#3649",
)
def discarding_frees_the_output(candidate: Candidate, lab: Lab) -> None:
    """Once discarded, the output's memory is free although the consumer saved the output.

    That is the one thing that this style does beyond the others.

    How: release the storage's memory, and keep the storage for those who saved it.
    """
    x = activation(lab)
    plain, _ = _forward(PLAIN, lab, lambda: Region(torch.sin, (x,)))
    found, _ = _forward(candidate, lab, lambda: Region(torch.sin, (x,)))
    expect_at_most(
        "bytes kept after the discard",
        plain.net - ACTIVATION + SLACK // 4,
        found.net,
        lambda: _kept(candidate, lab, Region(torch.sin, (x,))),
    )


class _Steps(nn.Module):
    """The same as a module, which has a mode."""

    def forward(self, x: Tensor) -> Tensor:
        return steps(x)


def _forward(
    candidate: Candidate, lab: Lab, make: Callable[[], Region], consumer: Consumer = keep_saved
) -> tuple[MemoryTimeline, Any]:
    """What a forward allocates and leaves, its result alive; a first run warms up what is made only once."""
    candidate.run(make(), consumer)
    with record_memory(lab.device) as timeline:
        result = candidate.run(make(), consumer)
    return timeline, result


def _expect_saving(candidate: Candidate, lab: Lab, region: Region) -> None:
    plain, _ = _forward(PLAIN, lab, lambda: region)
    found, _ = _forward(candidate, lab, lambda: region)
    expect_at_most(
        "bytes kept between forward and backward",
        plain.net // 2,
        found.net,
        lambda: _kept(candidate, lab, region),
    )


def _kept(candidate: Candidate, lab: Lab, region: Region) -> tuple[str, ...]:
    """Who holds what a forward made and left, while its result is alive."""
    with LiveBytes() as live:
        result = candidate.run(region)
    told = lab.trace(live.tensors)
    del result
    return told
