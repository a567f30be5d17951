"""The caching allocator's own figures, and what restoring an output asks of the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.compare import backward_from, weighted_loss
from ckpt_conformance.standard.evidence import expect_equal, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import CUDA, DISCARDING, MUST, RECOMPUTING, SHOULD, requirement

_SIDE = 1024
ACTIVATION = 4 * _SIDE * _SIDE
"""Bytes of one activation: 4 MiB, so that what is no activation does not matter."""
_SLACK = 256 * 1024
_STEPS = 6


@requirement(
    "cuda/memory-after-each-step", MUST, since="2026.12", devices=CUDA, styles=RECOMPUTING,
    source=("pytorch/pytorch#77284", "NVIDIA/Megatron-LM#6117"),
)  # fmt: skip
def memory_after_each_step(candidate: Candidate, lab: Lab) -> None:
    """Allocated and reserved bytes after a step are the same from the second step on.

    What every step leaves behind adds up until the device is full, hours later. Where only reserved bytes
    grow, memory is cut into blocks that no later step can use.

    How: let nothing that a recompute made outlive its backward, and allocate on the region's own stream.
    """
    x = lab.tensor(_SIDE, _SIDE)
    levels = [_level_after_a_step(candidate, lab, x) for _ in range(_STEPS)]
    for what, after_two, at_the_end in zip(("allocated", "reserved"), levels[1], levels[-1], strict=True):
        if at_the_end > after_two:
            grown = (at_the_end - after_two) / (_STEPS - 2) / ACTIVATION
            violated(
                f"{what} bytes grow from step to step",
                expected=f"{after_two} after step {_STEPS} as after step 2",
                found=f"{at_the_end}: {grown:.2f} activations a step",
            )


@requirement(
    "cuda/peak-while-restoring", MUST, since="2026.12", devices=CUDA, styles=DISCARDING,
    source="NVIDIA/Megatron-LM#3649",
)  # fmt: skip
def peak_while_restoring(candidate: Candidate, lab: Lab) -> None:
    """While an output is restored, the allocator's peak is one activation above the level before.

    Allocating the old storage anew and copying into it makes that two: 4 GiB more for an output of 4 GiB, in
    the moment that decides whether the step fits.

    How: share the recomputed memory with the output's storage; allocate nothing for it.
    """
    device = torch.device(lab.device)
    weight = lab.tensor(_SIDE, 1, seed=1)
    at_the_peak: list[int] = []
    result = candidate.run(
        Region(torch.tanh, (lab.tensor(_SIDE, _SIDE),)), lambda y: _NotesPeak.apply(y @ weight, at_the_peak)
    )
    loss = weighted_loss(result)
    assert loss is not None
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    loss.backward()
    extra = at_the_peak[0] - before
    if extra > ACTIVATION + _SLACK:
        violated(
            "restoring takes more than one activation",
            expected=f"at most {ACTIVATION + _SLACK} bytes above the level before the backward",
            found=f"{extra} bytes, {extra / ACTIVATION:.2f} activations",
        )


@requirement(
    "cuda/no-synchronisation", SHOULD, since="2026.12", devices=CUDA,
    source="https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html",
)  # fmt: skip
def no_synchronisation(candidate: Candidate, lab: Lab) -> None:
    """Neither forward nor backward waits for the device.

    Each wait drains the queue of kernels that hides launch times; one in every region of every layer makes
    the device idle most of a small step.

    How: read nothing back from the device: compare forms on the host, order streams by events.
    """
    expect_equal("waits for the device", _wait(PLAIN, lab), _wait(candidate, lab))


@requirement(
    "cuda/restoring-launches-no-copy", SHOULD, since="2026.12", devices=CUDA, styles=DISCARDING,
    source="NVIDIA/Megatron-LM#3649",
)  # fmt: skip
def restoring_launches_no_copy(candidate: Candidate, lab: Lab) -> None:
    """The trace of a backward has no copy on the device that the plain backward does not have.

    The trace sees what no mode sees: copies between storages, from an extension, or on another stream. On an
    H200 the copy of 4 GiB takes two milliseconds, and sharing it eleven microseconds.

    How: share the recomputed memory with the output's storage.
    """
    expect_equal("copies on the device in a backward", _copies(PLAIN, lab), _copies(candidate, lab))


def _level_after_a_step(candidate: Candidate, lab: Lab, x: Tensor) -> tuple[int, int]:
    backward_from(candidate.run(Region(_several, (x,))))
    x.grad = None
    torch.cuda.synchronize(lab.device)
    return torch.cuda.memory_allocated(lab.device), torch.cuda.memory_reserved(lab.device)


def _several(x: Tensor) -> Tensor:
    return x.sin().cos().tanh()


class _NotesPeak(torch.autograd.Function):
    """The identity; its backward, right after the hook tensor's gradient, notes the peak so far."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, peaks: list[int]) -> Tensor:
        ctx.peaks = peaks
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        ctx.peaks.append(torch.cuda.max_memory_allocated(gradients[0].device))
        return gradients[0], None


def _wait(candidate: Candidate, lab: Lab) -> str:
    """What torch says about the first operation that waits; `none` where there is none."""
    x, before = lab.tensor(64, 64), torch.cuda.get_sync_debug_mode()
    torch.cuda.synchronize(lab.device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        backward_from(candidate.run(Region(_several, (x,))))
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        return str(error).split("\n")[0]
    finally:
        torch.cuda.set_sync_debug_mode(before)
    return "none"


def _copies(candidate: Candidate, lab: Lab) -> int:
    result = candidate.run(Region(torch.tanh, (lab.tensor(_SIDE, _SIDE),)))
    with profile(activities=[ProfilerActivity.CUDA]) as recorder:
        backward_from(result)
        torch.cuda.synchronize(lab.device)
    return sum("Memcpy DtoD" in event.name for event in recorder.events() or ())
