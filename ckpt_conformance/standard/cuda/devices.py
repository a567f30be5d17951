"""Two devices in one process."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, sample
from ckpt_conformance.standard.compare import expect_like_plain
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import CUDA, MUST, requirement

_DOCS = "https://docs.pytorch.org/docs/stable/checkpoint.html"


def two_devices(_lab: Lab) -> str | None:
    """Why nothing can be said about two devices here; None where there are two."""
    found = torch.cuda.device_count()
    return None if found > 1 else f"is about two CUDA devices in one process; there is {found} here"


@requirement(
    "cuda/generator-of-another-device", MUST, since="2026.12", devices=CUDA, needs=two_devices,
    source=("pytorch/pytorch#14253", _DOCS),
)  # fmt: skip
def generator_of_another_device(candidate: Candidate, lab: Lab) -> None:
    """A device that only the region uses, none of whose inputs lies there, has its generator replayed.

    An implementation that looks at the devices of the inputs misses the one that a layer moves its work to.

    How: keep the generator's state of every device that is in use, not of those of the inputs.
    """
    expect_like_plain(candidate, lab, partial(_crosses, comes_back=True))


@requirement(
    "cuda/output-on-another-device", MUST, since="2026.12", devices=CUDA, needs=two_devices, source=_DOCS
)
def output_on_another_device(candidate: Candidate, lab: Lab) -> None:
    """A region whose output lies on another device than its inputs gives right gradients on both.

    Layers are spread over devices so. The backward of the consumer runs in the other device's thread, with
    that device current, and asks for a recompute that begins on the first.

    How: recompute with the region's own device current, and restore each output on the device that it was on.
    """
    expect_like_plain(candidate, lab, partial(_crosses, comes_back=False))


def _crosses(device: torch.device, *, comes_back: bool) -> Region:
    home = torch.device("cuda", device.index or 0)
    away = torch.device("cuda", 1 if home.index == 0 else 0)

    def fn(x: Tensor) -> Tensor:
        y = x.to(away)
        z = (y * torch.rand_like(y)).tanh()
        return z.to(home).sin() if comes_back else z

    return Region(fn, (sample(8, 8, device=home),))
