"""megatron-core: CheckpointWithoutOutput inside torch's non-reentrant checkpoint gives garbage gradients.

The consumer's saved view of the output is torch's to recompute, and so is the output that megatron restores: what
comes back is memory that was freed. Needs torch and megatron-core. Exit code 1 where the fault shows.
"""

import torch
from _megatron import load
from torch.utils.checkpoint import checkpoint

random = load()


def inner(x):
    use = random.CheckpointWithoutOutput(fp8=None)
    y = use.checkpoint(torch.tanh, x)
    z = y.sin()
    use.discard_output_and_register_recompute(z)
    return z.exp()


x = torch.linspace(-1, 1, 1024, requires_grad=True)
checkpoint(inner, x, use_reentrant=False).sum().backward()
plain = torch.linspace(-1, 1, 1024, requires_grad=True)
plain.tanh().sin().exp().sum().backward()
off = (x.grad - plain.grad).abs().max().item()
print("largest error:", off, "of gradients up to", plain.grad.abs().max().item())
raise SystemExit(not off < 1e-3)
