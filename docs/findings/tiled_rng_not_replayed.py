"""The tiled MLPs do not replay the random state: dropout inside has another mask in the recompute.

The same with liger_kernel.ops.tiled_mlp.apply_tiled_mlp. Needs torch and deepspeed. Exit code 1 where the fault shows.
"""

import torch
from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledMLP

torch.manual_seed(0)
dropout = torch.nn.Dropout(0.5)
x = torch.ones(1, 64, 4, requires_grad=True)
y = TiledMLP.apply(lambda module, x: module(x), dropout, x, 2, [])
y.sum().backward()
wrong = int(((y != 0) != (x.grad != 0)).sum())
print(wrong, "of", x.numel(), "elements were kept in one pass and dropped in the other")
raise SystemExit(wrong > 0)
