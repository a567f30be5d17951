"""Reentrant: a buffer that the region returns as well needs a gradient afterwards, although nothing computed it.

A backward from it never ends: the region's node, its recompute, the buffer, the node again. Needs torch alone. Exit
code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

mask = torch.ones(4)
checkpoint(lambda x: (x.exp(), mask), torch.ones(4, requires_grad=True), use_reentrant=True)
print("the buffer needs a gradient:", mask.requires_grad)
raise SystemExit(mask.requires_grad)
