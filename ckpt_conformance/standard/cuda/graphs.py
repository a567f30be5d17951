"""CUDA graphs: a step with the region in a capture."""

from __future__ import annotations

import torch
from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, sample
from ckpt_conformance.standard.compare import CLEAR_ERRORS, backward_from, expect_like_plain
from ckpt_conformance.standard.evidence import expect_same_tensor
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import CUDA, MAY, requirement


@requirement(
    "cuda/graph-capture", MAY, since="2026.12", devices=CUDA, capability="cuda-graphs",
    source="https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
)  # fmt: skip
def graph_capture(candidate: Candidate, lab: Lab) -> None:
    """A forward and backward with the region can be captured in a CUDA graph, and a replay uses new inputs.

    Capture records kernels once and replays them with other data in the same memory. Whatever the host did
    in between (a value read back, a generator's state, a recompute skipped) is frozen. An implementation that
    cannot do it has to say so before the capture is broken, and work afterwards.

    How: read nothing from the device, allocate through torch's allocator, and refuse where a generator's
    state cannot be had during a capture.
    """
    x = sample(32, 32, device=lab.device)
    other = sample(32, 32, device=lab.device, grad=False, seed=1)
    try:
        graph = _captured(candidate, x)
    except CLEAR_ERRORS:
        torch.cuda.synchronize(lab.device)
        expect_like_plain(candidate, lab, _region_on)
        raise
    with torch.no_grad():
        x.copy_(other)
    graph.replay()
    torch.cuda.synchronize(lab.device)
    plainly = other.detach().clone().requires_grad_()
    _step(PLAIN, plainly)
    expect_same_tensor("gradient after a replay with another input", plainly.grad, x.grad)


def _captured(candidate: Candidate, x: Tensor) -> torch.cuda.CUDAGraph:
    """The graph of one step, after two steps on a side stream as capture asks for."""
    side = torch.cuda.Stream(x.device)
    side.wait_stream(torch.cuda.current_stream(x.device))
    with torch.cuda.stream(side):
        for _ in range(2):
            _step(candidate, x)
            x.grad = None
    torch.cuda.current_stream(x.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _step(candidate, x)
    return graph


def _step(candidate: Candidate, x: Tensor) -> None:
    backward_from(candidate.run(Region(_fn, (x,))))


def _fn(x: Tensor) -> Tensor:
    return torch.tanh(x * 2).sin()


def _region_on(device: torch.device) -> Region:
    return Region(_fn, (sample(32, 32, device=device),))
