"""What generated programs may call; a stand-alone script carries the ones that its program uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = "cpu"
"""Where leaves are made."""


def leaf(*shape: int, seed: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> Tensor:
    """A leaf tensor whose values depend on the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype).to(DEVICE).requires_grad_(grad)


def index(*shape: int, seed: int, below: int) -> Tensor:
    """An integer tensor with values in [0, below)."""
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def meet(*tensors: Tensor) -> Tensor:
    """One flat float64 tensor of all the elements, so that one hook tensor comes before every consumer."""
    real = [
        torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor for tensor in tensors
    ]
    return torch.cat([tensor.reshape(-1).to(torch.float64) for tensor in real])


def other_checkpoint(x: Tensor) -> Tensor:
    """exp(sin), checkpointed by torch: a plain call would save two tensors, and it saves one."""
    y: Tensor = torch.utils.checkpoint.checkpoint(lambda given: given.sin().exp(), x, use_reentrant=False)
    return y


class Called:
    """A callable that is no function: it has no name and no code."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.fn(*args, **kwargs)


@dataclass
class Box:
    """A region's inputs in a dataclass."""

    x: Any
    more: Any


class Block(torch.nn.Module):
    """A region as a module: with a tied weight, a batch norm, a buffer, and hooks that set a factor."""

    def __init__(self, fn: Callable[..., Any], weight: Any, buffer: Tensor, mean: Tensor) -> None:
        super().__init__()
        self.fn, self.factor = fn, 1
        self.first, self.second = torch.nn.Module(), torch.nn.Module()
        self.first.weight = self.second.weight = weight
        self.norm = torch.nn.BatchNorm1d(2, affine=False, device=DEVICE, dtype=torch.float32)
        self.norm.running_mean = mean
        self.register_buffer("buffer", buffer)
        self.register_forward_pre_hook(lambda block, _args: setattr(block, "factor", 2))
        self.register_forward_hook(lambda block, _args, _output: setattr(block, "factor", 1))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the region, which is given the module."""
        return self.fn(self, *args, **kwargs)


class Doubles(TorchFunctionMode):
    """A mode in which `Tensor.sin` gives twice the sine."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function."""
        made = func(*args, **(kwargs or {}))
        return made * 2 if func is torch.Tensor.sin else made


class DoublesBelow(TorchDispatchMode):
    """A mode in which the operation `sin` gives twice the sine, below autograd."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operation."""
        made = func(*args, **(kwargs or {}))
        return made * 2 if func is torch.ops.aten.sin.default else made


class Knows(torch.autograd.Function):
    """2 x; its gradient is right where the constant that it saved comes back as the same object."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, constant: Tensor) -> Tensor:
        """Save the constant."""
        ctx.number = id(constant)
        ctx.save_for_backward(constant)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """2 gradient."""
        return gradient * (2 if id(ctx.saved_tensors[0]) == ctx.number else 3), None


class Asks(torch.autograd.Function):
    """x, whose gradient depends on whether `other` needs one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, other: Tensor) -> Tensor:
        """Copy x."""
        ctx.shape = other.shape
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient, three times as large where `other` needs one."""
        factor = 3 if ctx.needs_input_grad[1] else 1
        return gradient * factor, gradient.new_zeros(ctx.shape)


class SaveViews(torch.autograd.Function):
    """x * x, by way of two saved views on x's storage, as grouped linear layers do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Save views of a reshaped input."""
        ctx.shape = x.shape
        ctx.save_for_backward(*torch.split(x.reshape(-1), max(1, x.numel() // 2)))
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """2 x gradient, with x put together again from the views."""
        return 2 * torch.cat(ctx.saved_tensors).reshape(ctx.shape) * gradient


class SaveOutput(torch.autograd.Function):
    """exp, which saves its own output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Save the output."""
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """The output times the gradient."""
        y: Tensor = ctx.saved_tensors[0]
        return y * gradient


class ReadTwice(torch.autograd.Function):
    """x cubed; its backward asks for the saved tensors twice, which is allowed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Save the input."""
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """3 x x gradient."""
        once: Tensor = ctx.saved_tensors[0]
        again: Tensor = ctx.saved_tensors[0]
        product: Tensor = 3 * once * again * gradient
        return product


class Swish(torch.autograd.Function):
    """x * sigmoid(x), saving an intermediate that no graph knows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Save the gate and the output."""
        gate = x.sigmoid()
        ctx.save_for_backward(gate, x * gate)
        return x * gate

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """d(x s) = s + x s (1 - s), from what was saved."""
        gate, output = ctx.saved_tensors
        product: Tensor = (gate + output * (1 - gate)) * gradient
        return product
