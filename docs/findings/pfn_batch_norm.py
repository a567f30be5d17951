"""pytorch-pfn-extras: running statistics are half-way between the passes, and batches are counted twice.

Its momentum is set so that two passes come to what one comes to, as its docstring says: a forward without a backward
counts in part. Needs torch and pytorch-pfn-extras. Exit code 1 where that shows.
"""

import torch
from pytorch_pfn_extras.utils.checkpoint import checkpoint

x = torch.randn(8, 4, requires_grad=True)
plain, norm = torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4)
plain(x)
y = checkpoint(norm, x)
forward = (norm.running_mean / plain.running_mean).mean().item()
y.sum().backward()
print(
    f"part of the statistics after the forward: {forward:.2f}; batches counted: {int(norm.num_batches_tracked)}"
)
raise SystemExit(abs(forward - 1) > 0.1)
