"""DeepSpeed's checkpoint does not notice that an input was changed in place before the backward.

Without checkpointing, and with torch's own checkpoint, autograd raises "modified by an inplace operation".
Needs torch and deepspeed. Exit code 1 where the fault shows.
"""

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import checkpoint

leaf = torch.zeros(4, requires_grad=True)
x = leaf + 0
y = checkpoint(torch.exp, x)
x.add_(1)
try:
    y.sum().backward()
except RuntimeError as error:
    print("caught:", str(error)[:80])
    raise SystemExit(0) from None
print("the gradient of exp at 0 is 1, found", leaf.grad[0].item())
raise SystemExit(1)
