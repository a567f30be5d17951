"""torch's non-reentrant checkpoint gives a wrong gradient where a region changes a tensor that it had saved.

Without checkpointing, and with use_reentrant=True, autograd raises "modified by an inplace operation".
Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint


def region(x):
    y = x * 1
    z = y * y  # saves y
    y.add_(1)
    return z + y.exp()


x = torch.full((4,), 3.0, requires_grad=True)
try:
    checkpoint(region, x, use_reentrant=False).sum().backward()
except RuntimeError as error:
    print("caught:", str(error)[:80])
    raise SystemExit(0) from None
right = 6 + torch.tensor(4.0).exp().item()
print("the gradient of x * x + exp(x + 1) at 3 is", right, "found", x.grad[0].item())
raise SystemExit(abs(x.grad[0].item() - right) > 1e-3)
