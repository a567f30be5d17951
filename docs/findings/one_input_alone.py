"""torch's checkpoint_sequential takes one input, as its signature says; so do timm's and the tiled MLPs.

Needs torch alone. Exit code 1 where that shows.
"""

import torch
from torch.utils.checkpoint import checkpoint_sequential

x = torch.ones(4, requires_grad=True)
try:
    checkpoint_sequential([torch.add, torch.sin], 2, x, x, use_reentrant=False)
except TypeError as error:
    print("two inputs raise:", str(error)[:80])
    raise SystemExit(1) from None
print("two inputs are taken")
