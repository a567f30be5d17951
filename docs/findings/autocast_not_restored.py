"""The recompute of DeepSpeed's checkpoint does not run under the autocast of the forward.

Needs torch and deepspeed. Exit code 1 where the fault shows.
The same with megatron.core.tensor_parallel.random.checkpoint, torchgpipe.checkpoint.checkpoint, and, on the CPU,
fairscale.nn.checkpoint_wrapper and invtorch.utils.checkpoint.checkpoint.
"""

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import checkpoint

linear = torch.nn.Linear(8, 8)
x = torch.randn(4, 8, requires_grad=True)
dtypes = []


def region(x):
    y = linear(x)
    dtypes.append(y.dtype)
    return y.float().tanh()


with torch.autocast("cpu", torch.bfloat16):
    y = checkpoint(region, x)
y.sum().backward()
print("forward", dtypes[0], "recompute", dtypes[1])
raise SystemExit(dtypes[0] != dtypes[1])
