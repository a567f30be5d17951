"""Reentrant: `with torch.device(...)` around the forward is not active in the recompute.

Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

devices = []


def region(x):
    devices.append(torch.empty(1).device.type)
    return x.exp()


with torch.device("meta"):
    y = checkpoint(region, torch.ones(4, device="cpu", requires_grad=True), use_reentrant=True)
y.sum().backward()
print("a new tensor is on: forward", devices[0], "recompute", devices[1])
raise SystemExit(devices[0] != devices[1])
