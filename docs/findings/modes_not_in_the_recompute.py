"""A mode that is active in the forward is not active in the recompute: the gradient is of another function.

The same with every published implementation that was tried. Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint


class Doubling(TorchFunctionMode):
    """Stands for a mode that changes values, as one that simulates quantization does."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        value = func(*args, **(kwargs or {}))
        return value * 2 if func is torch.Tensor.exp else value


grads = []
for run in (lambda fn, x: fn(x), lambda fn, x: checkpoint(fn, x, use_reentrant=False)):
    x = torch.zeros(4, requires_grad=True)
    with Doubling():
        y = run(lambda x: x.exp().sin(), x)
    y.sum().backward()
    grads.append(x.grad)
print("gradient of sin(2 exp(x)) at 0: plain", grads[0][0].item(), "checkpointed", grads[1][0].item())
raise SystemExit(not torch.equal(*grads))
