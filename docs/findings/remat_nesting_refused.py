"""torch_remat refuses a region inside a region, by a clear error.

Needs torch and torch_remat. Exit code 1 where that shows.
"""

import torch
from torch_remat import checkpoint

inner = checkpoint()(torch.exp)
try:
    checkpoint()(lambda x: inner(x).sin())(torch.ones(4, requires_grad=True)).sum().backward()
except NotImplementedError as error:
    print("refused:", error)
    raise SystemExit(1) from None
print("nested regions run")
