"""unsloth_zoo's plain checkpoint: a region with two outputs runs forward, and its backward raises a TypeError.

Needs torch and unsloth_zoo. Exit code 1 where the fault shows.
"""

import os

os.environ.setdefault("UNSLOTH_ZOO_DISABLE_GPU_INIT", "1")

import torch
from unsloth_zoo.gradient_checkpointing import unsloth_gradient_checkpoint

first, second = unsloth_gradient_checkpoint(lambda x: (x.exp(), x.sin()), torch.ones(4, requires_grad=True))
try:
    (first + second).sum().backward()
except TypeError as error:
    print("backward raises:", error)
    raise SystemExit(1) from None
print("backward runs")
