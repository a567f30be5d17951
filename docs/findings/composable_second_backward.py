"""torch.distributed's composable checkpoint: a second backward raises an AttributeError.

The context manager that keeps its hooks off during a recompute is made once and entered for each recompute.
torch.utils.checkpoint with use_reentrant=False gives the gradient. Needs torch alone. Exit code 1 where the fault
shows.
"""

import torch
from torch.distributed._composable import checkpoint

module = checkpoint(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()))
loss = module(torch.randn(2, 4, requires_grad=True)).sum()
loss.backward(retain_graph=True)
try:
    loss.backward()
except AttributeError as error:
    print("second backward:", error)
    raise SystemExit(1) from None
print("second backward: fine")
