"""torch selective checkpointing: a weight that autocast had cast before the region raises in the recompute.

The forward takes the cast from autocast's cache, the recompute makes it anew: an operation that the forward had not.
Needs torch alone. Exit code 1 where the fault shows.
"""

from functools import partial

import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

kept = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
layer = torch.nn.Linear(4, 4)
x = torch.ones(2, 4, requires_grad=True)
with torch.autocast("cpu", torch.bfloat16):
    hidden = layer(x)
    contexts = partial(create_selective_checkpoint_contexts, kept)
    y = checkpoint(lambda h: layer(h).sin(), hidden, use_reentrant=False, context_fn=contexts)
try:
    y.float().sum().backward()
except RuntimeError as error:
    print("the backward raises:", str(error)[:100])
    raise SystemExit(1) from None
print("the backward runs")
