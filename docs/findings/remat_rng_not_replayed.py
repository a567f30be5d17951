"""torch_remat does not replay the random state by itself, as its docstring says: the user passes hooks for that.

Needs torch and torch_remat. Exit code 1 where that shows.
"""

import torch
from torch_remat import checkpoint

torch.manual_seed(0)
x = torch.ones(64, requires_grad=True)
y = checkpoint()(torch.nn.Dropout(0.5))(x)
y.sum().backward()
wrong = int(((y != 0) != (x.grad != 0)).sum())
print(wrong, "of 64 elements were kept in one pass and dropped in the other")
raise SystemExit(wrong > 0)
