"""Reentrant: the parameters of a region do not train where none of its inputs needs a gradient.

The first layer after frozen embeddings is the usual case. torch warns; others do not. Needs torch alone. Exit code 1
where the fault shows.
"""

import torch
from torch.utils.checkpoint import checkpoint

y = checkpoint(torch.nn.Linear(4, 4), torch.ones(2, 4), use_reentrant=True)
print("the output needs a gradient:", y.requires_grad)
raise SystemExit(not y.requires_grad)
