"""An input and a function for the tests of the reference's function style."""

from __future__ import annotations

import torch


def sample(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).requires_grad_()


class Exp(torch.autograd.Function):
    """Saves its output, reads its saved tensors as often as asked, and may close a cycle."""

    reads = 1
    keep = False

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        if Exp.keep:
            ctx.y = y
        return y

    @staticmethod
    def backward(ctx, grad):
        for _ in range(Exp.reads):
            y = ctx.saved_tensors[1]
        return grad * y
