"""What a requirement works with: a device, and inputs that are the same every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ckpt_conformance.regions import sample

Trace: TypeAlias = Callable[[Callable[[], list[Any]]], tuple[str, ...]]
"""Tells, line by line, who holds the objects that a function finds; it calls the function itself."""


def untraced(find: Callable[[], list[Any]]) -> tuple[str, ...]:
    """Nothing: a stand-alone script says what survives, and carries no instruments to say who holds it."""
    del find
    return ()


@dataclass(frozen=True, slots=True)
class Lab:
    """The bench that a requirement works on.

    Attributes:
        device: Where regions run.
        trace: Says who holds what should be gone, for a finding's trace.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    trace: Trace = untraced

    def tensor(
        self, *shape: int, dtype: torch.dtype = torch.float32, grad: bool = True, seed: int = 0
    ) -> Tensor:
        """A leaf tensor on the lab's device whose values depend on the arguments alone: `regions.sample`."""
        return sample(*shape, device=self.device, dtype=dtype, grad=grad, seed=seed)
