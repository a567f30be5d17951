"""Composable: a module that asks for a gradient inside its own region raises an AssertionError without words.

The gradient recomputes the module while its forward is still running, and the recompute's forward hook drops the
generator that the forward's own hook needs. torch.utils.checkpoint does the same region right.
"""

import torch
from torch.distributed._composable import checkpoint


class Slope(torch.nn.Module):
    def forward(self, x):
        y = x.sin()
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return slope * y


x = torch.ones(3, requires_grad=True)
print("plain:", Slope()(x).tolist())
torch.utils.checkpoint.checkpoint(Slope(), x, use_reentrant=False).sum().backward()
print("torch.utils.checkpoint: gradient", x.grad.tolist())
try:
    checkpoint(Slope())(x).sum().backward()
    error = None
except AssertionError as raised:
    error = raised
print("composable:", repr(error))
print("reproduced" if error is not None else "not reproduced")
raise SystemExit(error is not None)
