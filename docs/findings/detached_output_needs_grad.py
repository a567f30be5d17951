"""Reentrant: an output that the region has detached comes back as part of the graph.

Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(4, requires_grad=True)
_, statistic = checkpoint(lambda x: (x.exp(), x.detach().mean()), x, use_reentrant=True)
print("the detached statistic needs a gradient:", statistic.requires_grad)
raise SystemExit(statistic.requires_grad)
