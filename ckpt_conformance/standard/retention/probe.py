"""What the retention requirements share: a watched region, a quiet bench, and how survivors are reported."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.instruments.watch import (
    LiveBytes,
    NodeWatch,
    ObjectWatch,
    StorageWatch,
    without_collector,
)
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.compare import weighted_loss
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab

ELEMENTS = 256


def nothing() -> None:
    """What happens between a watched region's operations unless a check says otherwise."""


def watched(lab: Lab, watch: StorageWatch, between: Callable[[], None] = nothing) -> Region:
    """A region of elementwise operations whose intermediates, in every run of it, are watched.

    Its input is no leaf, so that a leaf on the input's storage is the candidate's own detached one.
    `between` is called when some of its tensors have been saved and others have not.
    """
    weight = lab.tensor(ELEMENTS, seed=1)

    def region(x: Tensor) -> Tensor:
        hidden = watch.add("hidden", x * weight)
        bent = watch.add("bent", hidden.sin())
        between()
        return bent.exp()

    return Region(region, (lab.tensor(ELEMENTS) * 1,), parameters={"weight": weight})


@contextlib.contextmanager
def quiet(candidate: Candidate, lab: Lab) -> Iterator[None]:
    """The collector off, after runs that let the candidate do what it does only once in a process."""
    for _ in range(2):
        with LiveBytes():
            backward(candidate.run(watched(lab, StorageWatch())))
    with without_collector():
        yield


def backward(result: Any, **options: Any) -> None:
    """Go back through a result with a weight of its own for each element."""
    loss = weighted_loss(result)
    if loss is not None:
        loss.backward(**options)


def expect_freed(lab: Lab, summary: str, watch: StorageWatch) -> None:
    """Report the watched tensors whose memory is still there, and who holds them."""
    alive = watch.alive()
    if alive:
        violated(
            summary,
            expected="all of the watched tensors freed",
            found=f"{len(alive)} of them alive, {watch.bytes_alive()} bytes: {', '.join(alive)}",
            trace=lab.trace(watch.tensors),
        )


def expect_gone(lab: Lab, summary: str, watch: NodeWatch | ObjectWatch) -> None:
    """Report the watched nodes or objects that are still there, and who holds them."""
    alive = watch.alive()
    if alive:
        violated(
            summary,
            expected="none of the watched left",
            found=f"{len(alive)} alive: {', '.join(alive)}",
            trace=lab.trace(watch.objects),
        )


class Planned(Exception):  # noqa: N818 - it is no error but what the region was asked to do
    """What a region raises because the check wants it to."""


def raising_on(run: int) -> Callable[[], None]:
    """A function that raises `Planned` at one of its calls, counted from 1."""
    calls = 0

    def between() -> None:
        nonlocal calls
        calls += 1
        if calls == run:
            raise Planned(f"run {run}")

    return between


def attempt(run: Callable[..., Any], *args: Any) -> None:
    """Run something that may raise, and forget what it raised."""
    with contextlib.suppress(Exception):
        run(*args)


class KeepsItsOutput(torch.autograd.Function):
    """Doubles its input; its context and its output hold each other, so that the graph outlives its use."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Keep the output on the context, as no function should."""
        ctx.output = x * 2
        output: Tensor = ctx.output
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """The gradient of doubling."""
        del ctx
        return gradient * 2
