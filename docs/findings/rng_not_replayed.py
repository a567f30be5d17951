"""unsloth_zoo's plain checkpoint does not replay the random state: dropout has another mask in the recompute.

Needs torch and unsloth_zoo. Exit code 1 where the fault shows.
"""

import os

os.environ.setdefault("UNSLOTH_ZOO_DISABLE_GPU_INIT", "1")

import torch
from unsloth_zoo.gradient_checkpointing import unsloth_gradient_checkpoint

torch.manual_seed(0)
x = torch.ones(64, requires_grad=True)
y = unsloth_gradient_checkpoint(torch.nn.Dropout(0.5), x)
y.sum().backward()
wrong = int(((y != 0) != (x.grad != 0)).sum())
print(wrong, "of 64 elements were kept in one pass and dropped in the other")
raise SystemExit(wrong > 0)
