"""xformers 0.0.35: `checkpoint` raises IndexError on torch 2.13, which its own requirements admit.

Needs torch and xformers. Exit code 1 where the fault shows.
"""

import torch
from xformers import checkpoint

x = torch.ones(4, requires_grad=True)
try:
    checkpoint(torch.exp, x).sum().backward()
except IndexError as error:
    print("raised:", error)
    raise SystemExit(1) from None
print("gradient of exp at 1:", x.grad[0].item())
