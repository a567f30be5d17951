"""megatron-core: a recompute of another dtype goes through, and the gradient is wrong.

Needs torch and megatron-core. Exit code 1 where the fault shows.
"""

import torch
from _megatron import load

random = load()
linear = torch.nn.Linear(8, 8)


def gradient(checkpoint):
    x = torch.linspace(-1, 1, 32).view(4, 8).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        z = checkpoint(lambda x: linear(x).tanh(), x)
    z.float().sum().backward()
    return x.grad


def discarding(fn, x):
    use = random.CheckpointWithoutOutput(fp8=None)
    y = use.checkpoint(fn, x)
    z = y.sin()
    use.discard_output_and_register_recompute(z)
    return z


right, found = gradient(lambda fn, x: fn(x).sin()), gradient(discarding)
off = (right - found).abs().max().item() / right.abs().max().item()
print(f"the largest error is {off:.0%} of the largest gradient")
raise SystemExit(off > 0.01)
