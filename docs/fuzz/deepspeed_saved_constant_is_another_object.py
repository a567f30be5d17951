"""DeepSpeed, non-reentrant: a constant that the region saved comes back as another tensor object.

torch's own function hands the object itself back where it needs no gradient.
"""

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import non_reentrant_checkpoint
from torch.utils.checkpoint import checkpoint


class Knows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, constant):
        ctx.constant = id(constant)
        ctx.save_for_backward(constant)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        same.append(id(ctx.saved_tensors[0]) == ctx.constant)
        return gradient * 2, None


same, constant = [], torch.ones(3)
for run in (lambda f, x: f(x), lambda f, x: checkpoint(f, x, use_reentrant=False), non_reentrant_checkpoint):
    run(lambda x: Knows.apply(x, constant), torch.ones(3, requires_grad=True)).sum().backward()
print("the same object: plain", same[0], "torch", same[1], "deepspeed", same[2])
print("reproduced" if not same[2] else "not reproduced")
raise SystemExit(not same[2])
