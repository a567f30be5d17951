"""The peak of a backward that restores a discarded activation of 24 MiB, from the allocator's snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor

from ckpt_conformance.bench.claims.step import installed
from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.catalog.reference import reference_discard
from ckpt_conformance.instruments.snapshot import dump, events, recorded
from ckpt_conformance.reference import restoring
from ckpt_conformance.regions import Region, sample
from ckpt_conformance.report.record import facts

_TOKENS, _NARROW, _HIDDEN = 4096, 256, 3072
ACTIVATION = 2 * _TOKENS * _HIDDEN
"""Bytes of the region's output: 24 MiB of bfloat16."""


@dataclass(frozen=True, slots=True)
class Peak:
    """What one candidate's backward peaked at.

    Attributes:
        candidate: Its name and version.
        activation: Bytes of the output that it discards.
        peak: Bytes at the highest, above the level before the backward.
    """

    candidate: str
    activation: int
    peak: int


def measure_peak(device: torch.device, folder: Path | None = None) -> list[Peak]:
    """Measure the plain run, sharing, copying, and megatron-core as installed.

    Args:
        device: A CUDA device.
        folder: Where to leave each snapshot for the viewer at https://pytorch.org/memory_viz; or None.
    """
    candidates = (PLAIN, *installed(("reference-discard", "megatron-discard")))
    found = [_peak(candidate, _named(candidate), device, folder) for candidate in candidates]
    with _restoring_by_copy():
        found.append(_peak(reference_discard(), "reference-discard made to copy", device, folder))
    return found


def _named(candidate: Candidate) -> str:
    """The candidate with its version, where it has one: megatron-core restored by a copy before 0.17."""
    return " ".join((candidate.name, *facts(candidate).distribution.split()[1:]))


def _peak(candidate: Candidate, name: str, device: torch.device, folder: Path | None) -> Peak:
    for warm in (True, False):
        x = sample(_TOKENS, _NARROW, device=device, dtype=torch.bfloat16)
        up = sample(_NARROW, _HIDDEN, device=device, dtype=torch.bfloat16, seed=1)
        down = sample(_HIDDEN, 64, device=device, dtype=torch.bfloat16, seed=2)
        result = candidate.run(Region(torch.mm, (x, up)), partial(_project, down))
        gradient = torch.ones_like(result)
        torch.cuda.synchronize(device)
        if warm:
            result.backward(gradient)
    with recorded(device):
        result.backward(gradient)
        torch.cuda.synchronize(device)
        steps = list(_steps())
        if folder is not None:
            dump(folder / f"{name.replace(' ', '-')}.pickle")
    return Peak(name, ACTIVATION, max(accumulate(steps, initial=0)))


def _project(weight: Tensor, hidden: Tensor) -> Tensor:
    return hidden @ weight


def _steps() -> Iterator[int]:
    """Bytes of each allocation (positive) and free (negative) of the record."""
    for action, nbytes in events():
        if action in {"alloc", "free_completed"}:
            yield nbytes if action == "alloc" else -nbytes


@contextlib.contextmanager
def _restoring_by_copy() -> Iterator[None]:
    """The reference as it would be if it allocated again and copied.

    The recomputed output stays, as it does where the region's backward starts from it.
    """
    kept: list[torch.UntypedStorage] = []

    def copy(destination: torch.UntypedStorage, source: torch.UntypedStorage) -> None:
        destination.resize_(source.nbytes())
        destination.copy_(source)
        kept.append(source)

    def discard(storage: torch.UntypedStorage, _message: str) -> None:
        storage.resize_(0)

    with mock.patch.object(restoring, "share_bytes", copy), mock.patch.object(restoring, "discard", discard):
        yield
