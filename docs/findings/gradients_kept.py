"""torch's reentrant checkpoint leaves each recomputed leaf with its gradient: twice the memory where it stays.

A module that keeps a tensor of its graph, as a cache does, keeps the recompute's detached input alive, and that
keeps `.grad`, although the gradient was handed over. The same with megatron-core, DeepSpeed and fairscale.
Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

kept = []


def region(x):
    kept.append(x)
    return x.exp()


x = torch.randn(4, requires_grad=True)
checkpoint(region, x, use_reentrant=True).sum().backward()
recomputed = kept[1]
print("the recompute's own input is", recomputed is not x, "and holds", recomputed.grad)
raise SystemExit(recomputed is not x and recomputed.grad is not None)
