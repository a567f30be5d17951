"""megatron-core up to 0.16.1: the recomputed output is copied into the discarded one, so both are there at a time.

0.19 shares the storage. Needs torch and megatron-core. Exit code 1 where the fault shows.
"""

import torch
from _megatron import load

use = load().CheckpointWithoutOutput(fp8=None)
made = []


def region(x):
    y = x.exp()
    made.append(y.untyped_storage().data_ptr())
    return y


x = torch.randn(1024, requires_grad=True)
y = use.checkpoint(region, x)
z = y.sin()
use.discard_output_and_register_recompute(z)
z.sum().backward()
copied = y.untyped_storage().data_ptr() != made[1]
print("the restored output has memory of its own, apart from the recomputed one:", copied)
raise SystemExit(copied)
