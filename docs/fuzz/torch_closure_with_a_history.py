"""Torch's reentrant checkpoint, and a region that reaches a tensor with a history by its closure.

The backward inside the checkpoint runs through that history too, and frees it: another backward that comes to it, the
outer one or that of a second region, ends in an error. A plain run has one backward through all of it.
"""

import sys

import torch
from torch.utils.checkpoint import checkpoint

x, y = (torch.ones(2, requires_grad=True) for _ in range(2))


def step(run):
    shared = x.sin()
    return sum(run(lambda value: shared.sin() * value, y) for _ in range(2)).sum()


step(lambda region, value: region(value)).backward()
print("plain:", x.grad)

message = ""
try:
    step(lambda region, value: checkpoint(region, value, use_reentrant=True)).backward()
except RuntimeError as error:
    message = str(error)
print("checkpointed:", message[:60])

if "Trying to backward through the graph a second time" in message:
    print("reproduced")
    sys.exit(1)
