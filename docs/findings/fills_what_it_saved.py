"""torch's non-reentrant checkpoint: NaN gradients where the last operation fills what it saved afterwards.

RReLU saves its noise before it has drawn it. Early stopping ends the recompute at the moment of saving, so that
the noise is never drawn. Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.randn(64)
grads = []
for early_stop in (False, True):
    torch.manual_seed(0)
    leaf = x.clone().requires_grad_()
    checkpoint(torch.nn.RReLU(), leaf, use_reentrant=False, early_stop=early_stop).sum().backward()
    grads.append(leaf.grad)
print("largest difference:", (grads[0] - grads[1]).abs().max().item())
raise SystemExit(not torch.equal(*grads))
