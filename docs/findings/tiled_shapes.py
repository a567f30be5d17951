"""A tiled MLP takes what an MLP takes: an input without a sequence dimension raises.

Needs torch and deepspeed. Exit code 1 where that shows.
"""

import torch
from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledMLP

try:
    TiledMLP.apply(lambda module, x: module(x), torch.nn.Tanh(), torch.ones(4, requires_grad=True), 1, [])
except (IndexError, RuntimeError) as error:
    print("one dimension raises:", str(error)[:80])
    raise SystemExit(1) from None
print("one dimension is taken")
