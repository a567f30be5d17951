"""Reentrant: with create_graph=True the gradient comes without a graph, so second derivatives are dropped.

With use_reentrant=False it has one. Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(4, requires_grad=True)
checkpoint(torch.exp, x, use_reentrant=True).sum().backward(create_graph=True)
print("the gradient has a graph:", x.grad.requires_grad)
raise SystemExit(not x.grad.requires_grad)
