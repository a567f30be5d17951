"""Torch's reentrant checkpoint recomputes with the default dtype of the backward, not with that of the forward.

A region that makes a tensor (of Python numbers, say) gives other values, and other gradients, where the caller set
torch.set_default_dtype around the forward and set it back before the backward.
"""

import sys

import torch
from torch.utils.checkpoint import checkpoint


def region(value):
    return value * torch.tensor([1 / 3, 1e-9]) + value


def gradient(run):
    x = torch.ones(2, requires_grad=True, dtype=torch.float64)
    torch.set_default_dtype(torch.float64)
    try:
        result = run(x)
    finally:
        torch.set_default_dtype(torch.float32)
    result.sum().backward()
    return x.grad


plain = gradient(region)
found = gradient(lambda x: checkpoint(region, x, use_reentrant=True))
print("off by", (plain - found).abs().max().item(), "in float64")

if not torch.equal(plain, found):
    print("reproduced")
    sys.exit(1)
