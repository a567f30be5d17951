"""Reentrant: a region whose tensors come in a list gives an output that needs no gradient.

torch warns that no input needs one; the implementations shaped like it mostly say nothing. Needs torch alone. Exit
code 1 where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

x = torch.ones(4, requires_grad=True)
y = checkpoint(lambda pair: pair[0] * pair[1], [x, x], use_reentrant=True)
print("the output needs a gradient:", y.requires_grad)
raise SystemExit(not y.requires_grad)
