"""What the region changes in place outside itself, it changes twice: the recompute meets the changed state.

A key-value cache that grows in a checkpointed layer is the usual case. Needs torch alone. Exit code 1 where the fault
shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

grads = []
for run in (lambda fn, x: fn(x), lambda fn, x: checkpoint(fn, x, use_reentrant=False)):
    cache = []

    def region(x, cache=cache):
        cache.append(x)
        return sum(cache).exp()

    x = torch.ones(4, requires_grad=True)
    run(region, x).sum().backward()
    grads.append(x.grad)
print("gradient of exp at 1: plain", grads[0][0].item(), "checkpointed", grads[1][0].item())
raise SystemExit(not torch.equal(*grads))
