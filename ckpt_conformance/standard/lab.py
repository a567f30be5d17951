"""What a requirement works with: a device, and inputs that are the same every time."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ckpt_conformance.regions import sample


@dataclass(frozen=True, slots=True)
class Lab:
    """The bench that a requirement works on.

    Attributes:
        device: Where regions run.
    """

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def tensor(
        self, *shape: int, dtype: torch.dtype = torch.float32, grad: bool = True, seed: int = 0
    ) -> Tensor:
        """A leaf tensor on the lab's device whose values depend on the arguments alone: `regions.sample`."""
        return sample(*shape, device=self.device, dtype=dtype, grad=grad, seed=seed)
