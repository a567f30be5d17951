"""DeepSpeed, non-reentrant: a branch that saved views of an activation is never freed where nothing goes back to it.

The pack hook keeps each saved tensor that needs a gradient and is a leaf. A view that an autograd.Function saves is
one; through its base it holds the graph, and the graph's nodes hold the hooks: a cycle that no collector sees.
"""

import gc

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import non_reentrant_checkpoint
from torch.multiprocessing.reductions import StorageWeakRef


class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(*x.split(2))
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * torch.cat(ctx.saved_tensors) * gradient


def alive(run):
    made = []

    def region(x):
        y = x.sin()
        made.append(StorageWeakRef(y.untyped_storage()))
        Halves.apply(y)
        return x.cos()

    run(region, torch.ones(4, requires_grad=True))
    gc.collect()
    return sum(not reference.expired() for reference in made)


plain, found = alive(lambda region, x: region(x)), alive(non_reentrant_checkpoint)
print("activations alive after all is gone: plain", plain, "checkpointed", found)
print("reproduced" if found > plain else "not reproduced")
raise SystemExit(found > plain)
