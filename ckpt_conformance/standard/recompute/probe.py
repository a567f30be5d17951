"""What the recompute requirements share: a region that knows how often it has run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ckpt_conformance.regions import Region
from ckpt_conformance.standard.compare import weighted_loss
from ckpt_conformance.standard.lab import Lab

Body = Callable[[Tensor, int], Any]
"""A region's function of its input and the number of its run, counted from 1."""


class Runs:
    """A region that counts how often its function has been entered."""

    def __init__(self, lab: Lab, body: Body) -> None:
        self.count = 0
        self.leaf = lab.tensor(4, 8)
        self._body = body

    def region(self) -> Region:
        """The region, on a leaf that needs grad."""
        return Region(self._run, (self.leaf,))

    def _run(self, x: Tensor) -> Any:
        self.count += 1
        return self._body(x, self.count)


def chain(x: Tensor, _run: int) -> Tensor:
    """A body that saves two tensors besides its input."""
    return (x * 2).sin().exp()


def backward(result: Any, **options: Any) -> None:
    """Go back through a result with a weight of its own for each element."""
    loss = weighted_loss(result)
    assert loss is not None, "the regions of this family are differentiable"
    loss.backward(**options)
