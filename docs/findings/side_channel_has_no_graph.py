"""Reentrant: a loss that the region leaves on the way, as a router's auxiliary loss, trains nothing.

With use_reentrant=False it has its graph. Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

aside = []


def region(x):
    aside.append(x.pow(2).mean())
    return x.exp()


checkpoint(region, torch.ones(4, requires_grad=True), use_reentrant=True)
print("the auxiliary loss needs a gradient:", aside[0].requires_grad)
raise SystemExit(not aside[0].requires_grad)
