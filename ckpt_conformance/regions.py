"""The regions and consumers that requirements run: small, deterministic, made anew for each run.

A *region* is the function whose activations are recomputed, with its inputs. The factories here take a
`device` and give a fresh region with the same values every time, so that a plain run and a candidate's run
can be compared bit by bit. Sizes stay at a few hundred elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

Consumer: TypeAlias = Callable[[Any], Any]
"""What runs downstream of a region: takes the region's output, returns what the loss is made of."""


@dataclass(frozen=True, slots=True)
class Region:
    """A function with its inputs, and the parameters it reaches by closure.

    Attributes:
        fn: The function whose activations are to be recomputed.
        args: Its positional inputs.
        kwargs: Its keyword inputs.
        parameters: Leaf tensors that `fn` reaches by closure, by name. Their gradients are compared too.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Tensor] = field(default_factory=dict)

    def plain(self) -> Any:
        """Run the region without any checkpointing."""
        return self.fn(*self.args, **self.kwargs)

    def leaves(self) -> Iterator[tuple[str, Tensor]]:
        """Every leaf tensor whose gradient a user would look at, with a name for the evidence."""
        for position, value in enumerate(tree_leaves((self.args, dict(self.kwargs)))):
            if isinstance(value, Tensor):
                yield f"input {position}", value
        for name, parameter in self.parameters.items():
            yield f"parameter {name!r}", parameter


def sample(
    *shape: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    grad: bool = True,
    seed: int = 0,
) -> Tensor:
    """A leaf tensor of normal values that depends on `shape`, `dtype` and `seed` alone.

    The values are drawn on the CPU by a generator of their own, so they are equal on every device and the
    global generator stays where it was.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(
        shape, generator=generator, dtype=torch.complex128 if dtype.is_complex else torch.float64
    )
    return drawn.to(device=device, dtype=dtype).requires_grad_(grad)


def seeded_module(build: Callable[[], nn.Module], device: torch.device, seed: int = 0) -> nn.Module:
    """A module with reproducible parameters, made without moving the global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().to(device)


def module_region(module: nn.Module, *args: Any, **kwargs: Any) -> Region:
    """A region that calls a module, its parameters captured by closure."""
    return Region(lambda *a, **k: module(*a, **k), args, kwargs, dict(module.named_parameters()))


def mlp(device: torch.device) -> Region:
    """Two linear layers with a GELU between them."""
    module = seeded_module(lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)), device)
    return module_region(module, sample(4, 8, device=device))


def keep_saved(output: Any) -> Any:
    """The ordinary consumer: reads every tensor of the output and saves the differentiable ones.

    Returns new tensors only, so that the output itself may be discarded afterwards. Several results meet in
    one node, as they do in a real layer: whichever of them is the hook tensor, its gradient comes before
    any backward that reads the output.
    """
    leaves, spec = tree_flatten(tree_map(_consume, output))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.requires_grad]
    if len(places) > 1:
        for place, tensor in zip(places, _Meeting.apply(*(leaves[place] for place in places)), strict=True):
            leaves[place] = tensor
    return tree_unflatten(leaves, spec)


class _Meeting(torch.autograd.Function):
    """One node behind several tensors; gives each as it is, and a gradient only where one came."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(tensor.clone() for tensor in tensors)

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor | None) -> Any:
        return gradients


def _consume(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.sin() if value.is_floating_point() or value.is_complex() else value * 1


def pass_through(output: Any) -> Any:
    """The consumer that does nothing: the caller gets the region's own output (never for discarding)."""
    return output
