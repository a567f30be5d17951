"""What of the device's state a recompute has to see again: generators, autocast, determinism."""

from __future__ import annotations

import torch
from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, mlp, sample
from ckpt_conformance.standard.compare import Observation, expect_like_plain, expect_same, observe
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import CUDA, MUST, RECOMPUTING, requirement

_DOCS = "https://docs.pytorch.org/docs/stable/checkpoint.html"


@requirement(
    "cuda/generators-of-host-and-device", MUST, since="2026.12", devices=CUDA,
    source=("pytorch/pytorch#14253", _DOCS),
)  # fmt: skip
def generators_of_host_and_device(candidate: Candidate, lab: Lab) -> None:
    """A region that draws on the host and on the device draws the same from both in the recompute.

    Stochastic depth draws on the host, dropout on the device. Each device has a generator of its own.

    How: keep the state of the CPU's generator and of every device's that is in use.
    """
    expect_like_plain(candidate, lab, _draws_from_both)


@requirement(
    "cuda/autocast-in-half-precision", MUST, since="2026.12", devices=CUDA,
    source=("NVIDIA/TransformerEngine#791", "facebookresearch/fairscale#1199"),
)  # fmt: skip
def autocast_in_half_precision(candidate: Candidate, lab: Lab) -> None:
    """Under the device's autocast, in bfloat16 and in float16, gradients are the plain run's.

    The device's autocast is another switch than the CPU's, with another default dtype. The backward runs
    outside of it, as training loops do.

    How: keep the setting of the device's autocast too, and enter it around the recompute.
    """
    for dtype in (torch.bfloat16, torch.float16):
        expected = _under_autocast(PLAIN, lab, dtype)
        expect_same(expected, _under_autocast(candidate, lab, dtype))


@requirement(
    "cuda/deterministic-kernels", MUST, since="2026.12", devices=CUDA, styles=RECOMPUTING,
    source="https://docs.pytorch.org/docs/stable/notes/randomness.html",
)  # fmt: skip
def deterministic_kernels(candidate: Candidate, lab: Lab) -> None:
    """Where deterministic algorithms are on, they are on in the recompute, and gradients repeat bit by bit.

    A recompute with other kernels than the forward's yields activations that differ in the last bits from
    the ones the loss was made of, and another run of the same program differs from this one.

    How: leave the setting alone.
    """
    was = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        modes: list[bool] = []
        expected = observe(PLAIN, _scatters(lab, []))
        for _ in range(2):
            expect_same(expected, observe(candidate, _scatters(lab, modes)))
    finally:
        torch.use_deterministic_algorithms(was[0], warn_only=was[1])
    expect_equal("deterministic algorithms in each run of the region", [True] * len(modes), modes)


def _draws_from_both(device: torch.device) -> Region:
    def fn(x: Tensor) -> Tensor:
        noise = torch.rand_like(x) + torch.rand(x.shape[-1]).to(x.device)
        return (x * noise).sin() * torch.randn_like(x)

    return Region(fn, (sample(8, 8, device=device),))


def _under_autocast(candidate: Candidate, lab: Lab, dtype: torch.dtype) -> Observation:
    """The forward under autocast, the backward outside of it."""
    return observe(_within_autocast(candidate, dtype), mlp(lab.device))


def _within_autocast(candidate: Candidate, dtype: torch.dtype) -> Candidate:
    """A candidate whose `run` is under autocast: the comparison's backward is then outside."""

    def forward(fn: object, *args: object, **kwargs: object) -> object:
        with torch.autocast("cuda", dtype=dtype):
            return candidate.run(Region(fn, args, kwargs))  # type: ignore[arg-type]

    return Candidate.from_function(forward, name=candidate.name)


def _scatters(lab: Lab, modes: list[bool]) -> Region:
    """Adds many rows to few: in any order but for deterministic algorithms."""
    index = torch.arange(4096, device=lab.device) % 7

    def fn(x: Tensor) -> Tensor:
        modes.append(torch.are_deterministic_algorithms_enabled())
        summed = torch.zeros(7, x.shape[1], device=x.device).index_add(0, index, x.exp())
        return (summed * 1e-3).sin()

    return Region(fn, (lab.tensor(4096, 8),))
