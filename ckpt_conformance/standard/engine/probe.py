"""What the engine requirements share: a region with named leaves, and a log of what the engine called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.compare import weighted_loss
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab

Log: TypeAlias = list[str]
"""What was called, in order; a gradient is logged with its norm."""


def leaves(lab: Lab) -> tuple[Tensor, Tensor]:
    """An input and a weight, fresh, of the same values every time."""
    return lab.tensor(4, 8), lab.tensor(8, 8, seed=1)


def region(x: Tensor, weight: Tensor) -> Region:
    """A matrix product and a tanh, the weight captured by closure."""
    return Region(lambda given: (given @ weight).tanh() * 2, (x,), parameters={"weight": weight})


def backward(result: Any, **options: Any) -> None:
    """Go back through a result with a weight of its own for each element."""
    loss = weighted_loss(result)
    assert loss is not None, "the regions of this family are differentiable"
    loss.backward(**options)


def noting(log: Log, name: str) -> Callable[[Tensor], None]:
    """A hook that logs its gradient's norm under a name."""

    def hook(gradient: Tensor) -> None:
        log.append(f"{name} {gradient.norm().item():.6g}")

    return hook


def expect_same_log(
    candidate: Candidate, lab: Lab, program: Callable[[Candidate, Lab, Log], None], *, ordered: bool = True
) -> None:
    """Report calls that differ from the plain run's: in number and values, and in order where asked."""
    expected: Log = []
    found: Log = []
    program(PLAIN, lab, expected)
    program(candidate, lab, found)
    if not ordered:
        expected, found = sorted(expected), sorted(found)
    expect_equal("calls of the hooks differ from the plain run's", expected, found)
