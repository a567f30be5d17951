"""Streams: the region on one, its consumer or the backward on another, and memory that outlives both."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Consumer, Region, keep_saved, sample
from ckpt_conformance.standard.compare import backward_from, expect_program_like_plain, gradients_of
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import CUDA, DISCARDING, MUST, RECOMPUTING, SHOULD, requirement

_STREAMS = "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams"
_SIDE = 1024
"""Side of the square activations here: 4 MiB of float32, a block of the allocator's of its own."""
_CYCLES = 30_000_000
"""How long a kernel idles: some 15 ms, in which even a busy host has launched what does not wait."""


@requirement(
    "cuda/consumer-on-another-stream", MUST, since="2026.12", devices=CUDA,
    source=(_STREAMS, "pytorch/pytorch#15849"),
)  # fmt: skip
def consumer_on_another_stream(candidate: Candidate, lab: Lab) -> None:
    """A consumer that runs on another stream than the region gets the recomputed data, not what was there.

    Communication and offloading run on streams of their own. The backward of the consumer reads the output on
    its stream; a recompute that was only launched on another one has not written it yet, and what is read is
    whatever lay in that memory.

    How: let the stream that triggers the recompute wait for the stream that it runs on, by an event.
    """
    _expect_step_like_plain(candidate, lab, consumer=consume_on_side_stream)


@requirement("cuda/side-stream-inside-the-region", MUST, since="2026.12", devices=CUDA, source=_STREAMS)
def side_stream_inside_the_region(candidate: Candidate, lab: Lab) -> None:
    """A region that hands part of its work to a side stream, and waits for it, gets right gradients.

    Overlapping layers do so. Recomputed tensors then come from two streams, and each is asked for by a node
    that runs on the stream of its own forward. A recompute that stops at the last saved tensor never comes to
    the region's own wait: the gradient is made of memory that is not written yet.

    How: let the region come to its end, and have whoever is given a recomputed tensor wait for it.
    """
    _expect_step_like_plain(candidate, lab, fn=_forks_to_a_side_stream)


@requirement("cuda/backward-on-another-stream", MUST, since="2026.12", devices=CUDA, source=_STREAMS)
def backward_on_another_stream(candidate: Candidate, lab: Lab) -> None:
    """A backward that is called on another stream than the forward gives the same gradients.

    Pipeline schedules do so. Autograd runs each node on the stream of its forward and brings the streams
    together at the end; a recompute outside of that order races with it.

    How: recompute on the region's own stream, or on the running node's, and let the other one wait.
    """
    _expect_step_like_plain(candidate, lab, backward=_backward_on_side_stream)


@requirement(
    "cuda/discarded-while-another-stream-reads", MUST, since="2026.12", devices=CUDA, styles=DISCARDING,
    source="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html",
)  # fmt: skip
def discarded_while_another_stream_reads(candidate: Candidate, lab: Lab) -> None:
    """The memory of a discarded output stays untouched until the streams that it was recorded on are done.

    The consumer's kernel may not even have started when the output is discarded. The allocator keeps a block
    whose tensor was recorded on a stream (`record_stream`); whoever frees it past the allocator, or writes to
    it, changes what that kernel reads.

    How: free the storage through the allocator (`resize_(0)`) and leave its bytes alone.
    """
    _expect_step_like_plain(candidate, lab, consumer=_read_late_on_side_stream)


@requirement(
    "cuda/recompute-on-the-regions-stream", SHOULD, since="2026.12", devices=CUDA, styles=RECOMPUTING,
    source=_STREAMS,
)  # fmt: skip
def recompute_on_the_regions_stream(candidate: Candidate, lab: Lab) -> None:
    """The recompute runs on the stream that the region ran on.

    The allocator keeps free blocks for each stream apart. A recompute on another stream finds none of the
    blocks that the forward freed, so that the process reserves them a second time.

    How: note the current stream in the forward and make it current around the recompute.
    """
    seen: list[int] = []

    def fn(x: Tensor) -> Tensor:
        seen.append(torch.cuda.current_stream(x.device).cuda_stream)
        return torch.tanh(x * 2)

    x = lab.tensor(8, 8)
    with torch.cuda.stream(waiting_stream(x.device)):
        result = candidate.run(Region(fn, (x,)), consume_on_side_stream)
        backward_from(result)
    torch.cuda.synchronize(x.device)
    expect_equal("the streams of the two runs", [seen[0]] * 2, seen)


def _expect_step_like_plain(candidate: Candidate, lab: Lab, **how: Any) -> None:
    """Compare one step, after a first one: loading a kernel for its first use may wait for the device."""
    step: Any = partial(_step, **how)
    step(candidate, lab.device)
    expect_program_like_plain(candidate, lab, step)


def waiting_stream(device: torch.device) -> torch.cuda.Stream:
    """A new stream that waits for what the current one was given so far."""
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    return side


def consume_on_side_stream(output: Tensor) -> Tensor:
    """Saves the output on a stream of its own, with every wait and record that the documentation asks for."""
    side = waiting_stream(output.device)
    output.record_stream(side)
    with torch.cuda.stream(side):
        result: Tensor = keep_saved(output)
    return _handed_back(result, side)


def _handed_back(result: Tensor, side: torch.cuda.Stream) -> Tensor:
    present = torch.cuda.current_stream(result.device)
    present.wait_stream(side)
    result.record_stream(present)
    return result


def _read_late_on_side_stream(output: Tensor) -> Tensor:
    """The same, but the kernel that reads the output starts long after this returns, and nobody waits."""
    side = waiting_stream(output.device)
    output.record_stream(side)
    result: Tensor = _ReadLate.apply(output, side)
    result.record_stream(torch.cuda.current_stream(output.device))
    return result


class _ReadLate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, side: torch.cuda.Stream) -> Tensor:
        ctx.save_for_backward(output)
        with torch.cuda.stream(side):
            torch.cuda._sleep(_CYCLES)
            return output.sin()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (output,) = ctx.saved_tensors
        return gradients[0] * output.cos(), None


def _slow(x: Tensor) -> Tensor:
    torch.cuda._sleep(_CYCLES)
    return torch.tanh(x * 2)


def _forks_to_a_side_stream(x: Tensor) -> Tensor:
    y = torch.tanh(x * 2)
    side = waiting_stream(y.device)
    y.record_stream(side)
    with torch.cuda.stream(side):
        torch.cuda._sleep(_CYCLES)
        z = (y * 3).sin() * y.exp()
    return _handed_back(z, side)


def _backward_on_side_stream(result: Tensor) -> None:
    side = waiting_stream(result.device)
    with torch.cuda.stream(side):
        backward_from(result)
    torch.cuda.current_stream(result.device).wait_stream(side)


def _step(
    candidate: Candidate,
    device: torch.device,
    *,
    fn: Any = _slow,
    consumer: Consumer = keep_saved,
    backward: Any = backward_from,
) -> Mapping[str, Tensor | None]:
    """One forward and backward; in between the memory that is free is filled with NaN."""
    x = sample(_SIDE, _SIDE, device=device)
    result = candidate.run(Region(fn, (x,)), consumer)
    _poison(x)
    torch.cuda.synchronize(device)
    seen = result.detach().clone()
    _poison(x)
    backward(result)
    torch.cuda.synchronize(device)
    return {"the result": seen} | gradients_of(x=x)


def _poison(like: Tensor) -> None:
    """Write NaN over the free blocks of this size, so that nobody finds right values in stale memory."""
    blocks = [torch.full_like(like, torch.nan) for _ in range(4)]
    del blocks
