"""TransformerEngine's non-reentrant checkpoint does not notice that an input was changed in place before backward.

The gradient is wrong and nothing says so. Without checkpointing, and with torch's own checkpoint, autograd raises
"modified by an inplace operation". Needs torch, transformer_engine and a CUDA device. Exit code 1 where it shows.
"""

import torch
from transformer_engine.pytorch import checkpoint

leaf = torch.zeros(4, device="cuda", requires_grad=True)
x = leaf + 0
y = checkpoint(torch.exp, x, use_reentrant=False)
x.add_(1)
try:
    y.sum().backward()
except RuntimeError as error:
    print("caught:", str(error)[:80])
    raise SystemExit(0) from None
print("the gradient of exp at 0 is 1, found", leaf.grad[0].item())
raise SystemExit(1)
