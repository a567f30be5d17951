"""Torch's reentrant checkpoint freezes a parameter that the region gives as it is, where no input needs a gradient.

The result of the checkpoint is marked as one that needs no gradient. Where the region gives a tensor that is no
argument by itself, the result is that very tensor: requires_grad of the caller's leaf is set to False, silently under
no_grad (without it torch warns that no input needs a gradient), and it trains no more, here or anywhere else. A tensor
with a history loses it.
"""

import sys

import torch
from torch.utils.checkpoint import checkpoint


class Tied(torch.nn.Linear):
    def forward(self, value):
        return super().forward(value), self.weight


x = torch.ones(2, requires_grad=True)
checkpoint(lambda pair: pair[0], (x, x), use_reentrant=True)
print("requires_grad of a leaf in a container:", x.requires_grad)

start = torch.ones(2, requires_grad=True)
middle = start * 2
with torch.no_grad():
    checkpoint(lambda pair: pair[0], (middle, middle), use_reentrant=True)
print("what another tensor came from, after a checkpoint under no_grad:", middle.grad_fn)

tied = Tied(2, 2)
with torch.no_grad():
    checkpoint(tied, torch.ones(2, requires_grad=True), use_reentrant=True)
print("requires_grad of the module's weight:", tied.weight.requires_grad, "and of its bias:", tied.bias.requires_grad)
tied(torch.ones(2))[0].sum().backward()
print("gradient of the weight in a plain run after that:", tied.weight.grad)

if not x.requires_grad and middle.grad_fn is None and not tied.weight.requires_grad and tied.weight.grad is None:
    print("reproduced")
    sys.exit(1)
