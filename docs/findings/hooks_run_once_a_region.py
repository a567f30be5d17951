"""Reentrant: a hook on a weight that two regions use runs twice in one backward, each time on a part of the gradient.

Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

weight, seen = torch.ones(4, requires_grad=True), []
weight.register_hook(lambda grad: seen.append(grad[0].item()))
y = torch.ones(4, requires_grad=True)
for _ in range(2):
    y = checkpoint(lambda x: x * weight, y, use_reentrant=True)
y.sum().backward()
print("the hook saw", seen, "of a gradient of", weight.grad[0].item())
raise SystemExit(len(seen) != 1)
