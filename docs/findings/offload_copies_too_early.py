"""torch's offload_wrapper (save_on_cpu with pinned memory): garbage gradients of RReLU.

RReLU saves its noise before it has drawn it; the hook copies what is saved at that moment. On a GPU the same goes for
save_on_cpu without pinning. Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper

x = torch.randn(64)
grads = []
for module in (torch.nn.RReLU(), offload_wrapper(torch.nn.RReLU())):
    torch.manual_seed(0)
    leaf = x.clone().requires_grad_()
    module(leaf).sum().backward()
    grads.append(leaf.grad)
print("largest difference:", (grads[0] - grads[1]).abs().max().item())
raise SystemExit(not torch.equal(*grads))
