"""fairscale: a batch norm's statistics are updated in the backward, not in the forward, as its source says.

Needs torch and fairscale. Exit code 1 where that shows.
"""

import torch
from fairscale.nn import checkpoint_wrapper

norm = torch.nn.BatchNorm1d(4)
layer = checkpoint_wrapper(torch.nn.Sequential(norm))
y = layer(torch.randn(8, 4, requires_grad=True))
forward = int(norm.num_batches_tracked)
y.sum().backward()
print("batches counted after the forward:", forward, "after the backward:", int(norm.num_batches_tracked))
raise SystemExit(forward == 0)
