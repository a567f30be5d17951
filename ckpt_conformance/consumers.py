"""Consumers with a mind of their own: what runs downstream of a region and saves views of its output.

`regions.keep_saved` saves the output itself; the consumers here save views of it, as real layers do. Each
gives one new tensor, so that the discarding style has one hook tensor, whose gradient comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ckpt_conformance.regions import Consumer, Region, sample, seeded_module


def joined(tensors: Iterable[Tensor]) -> Tensor:
    """One flat new tensor of all the elements."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def saving_views(views: Callable[[Tensor], Any]) -> Consumer:
    """A consumer that makes views of each output, saves these (not the output) and joins the results."""
    return partial(_save_views, views)


def _save_views(views: Callable[[Tensor], Any], output: Any) -> Tensor:
    tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]
    return joined(view.sin() for tensor in tensors for view in tree_leaves(views(tensor)))


def joined_saved(output: Any) -> Tensor:
    """Saves every output and gives one tensor: for regions of several outputs, restored under one hook."""
    return joined(leaf.sin() for leaf in tree_leaves(output) if isinstance(leaf, Tensor))


def save_output_and_view(output: Tensor) -> Tensor:
    """Saves the output and a transposed view of it."""
    return joined((output.sin(), output.t().cos()))


class GroupedLinear(torch.autograd.Function):
    """A linear layer for each group of rows, which saves one view of its input per group.

    Shapes: `inp` (..., in), `sizes` rows per group, each weight (out, in); gives (rows, out). The views are
    made with `reshape` and `torch.split` inside the forward, as TransformerEngine's grouped linear does, so
    that its backward reads the caller's storage through tensors that the caller never sees.
    """

    @staticmethod
    def forward(ctx: Any, inp: Tensor, sizes: Sequence[int], *weights: Tensor) -> Tensor:
        """Multiply each group of rows by its own weight."""
        groups = torch.split(inp.reshape(-1, inp.shape[-1]), list(sizes))
        ctx.save_for_backward(*groups, *weights)
        ctx.shape = inp.shape
        return torch.cat([group @ weight.t() for group, weight in zip(groups, weights, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradients of the input and of each weight; the weights' need the saved views."""
        count = len(ctx.saved_tensors) // 2
        groups, weights = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        parts = torch.split(gradients[0], [len(group) for group in groups])
        inputs = torch.cat([part @ weight for part, weight in zip(parts, weights, strict=True)])
        return (
            inputs.reshape(ctx.shape),
            None,
            *(part.t() @ group for part, group in zip(parts, groups, strict=True)),
        )


GROUP_SIZES = (3, 1, 4)
"""Rows of each expert in the mixture-of-experts region."""


def mixture_of_experts(device: torch.device) -> tuple[Region, Consumer]:
    """A norm and an activation whose output feeds a grouped linear, with the experts' weights as parameters.

    The gradient of an expert's weight depends on the saved view of the region's output; that of the region's
    input does not.
    """
    module = seeded_module(lambda: nn.Sequential(nn.LayerNorm(8), nn.GELU()), device)
    experts = [sample(6, 8, device=device, seed=number) for number in range(len(GROUP_SIZES))]
    parameters = dict(module.named_parameters()) | {
        f"expert {number}": weight for number, weight in enumerate(experts)
    }
    region = Region(lambda x: module(x), (sample(2, 4, 8, device=device),), parameters=parameters)
    return region, partial(_grouped_linear, experts)


def _grouped_linear(experts: Sequence[Tensor], output: Tensor) -> Tensor:
    result: Tensor = GroupedLinear.apply(output, GROUP_SIZES, *experts)
    return result
