"""A tensor that the region reaches by its closure may change before the backward; the gradient is silently wrong.

Without checkpointing autograd raises "modified by an inplace operation"; the same holds for tensors in containers and
keyword arguments. Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(4, requires_grad=True)
scale = torch.full((4,), 2.0)
y = checkpoint(lambda x: x * scale, x, use_reentrant=False)
scale.mul_(3)
try:
    y.sum().backward()
except RuntimeError as error:
    print("caught:", str(error)[:80])
    raise SystemExit(0) from None
print("the output is", y[0].item(), "at 1, so the gradient is 2; found", x.grad[0].item())
raise SystemExit(x.grad[0].item() != 2)
