"""Torch's reentrant checkpoint: `backward(inputs=...)` is refused, but for what the region reaches by closure alone.

The error comes from the checkpoint's backward, and the engine runs that only where it lies on a way to what was asked
for. No way is known to a tensor of the closure: it gets no gradient, and nothing is said.
"""

import sys

import torch
from torch.utils.checkpoint import checkpoint

x, weight = (torch.ones(2, requires_grad=True) for _ in range(2))


def region(value):
    return value * weight.sin()


region(x).sum().backward(inputs=[weight])
plain, weight.grad = weight.grad, None
checkpoint(region, x, use_reentrant=True).sum().backward(inputs=[weight])
print("plain:", plain, "checkpointed:", weight.grad)
try:
    checkpoint(region, x, use_reentrant=True).sum().backward(inputs=[x])
except RuntimeError as error:
    print("asked for the argument:", str(error)[:90])

if plain is not None and weight.grad is None:
    print("reproduced")
    sys.exit(1)
