"""How a tensor looks: what those of one step have in common with those of the next."""

from __future__ import annotations

from torch import Tensor

Look = tuple[object, ...]
"""Shape, type and place in the graph; equal for the tensors that one line makes in each step."""


def look_of(tensor: Tensor) -> Look:
    """The look of a tensor."""
    made_by = type(tensor.grad_fn).__name__ if tensor.grad_fn is not None else ""
    return tuple(tensor.shape), str(tensor.dtype), str(tensor.device), tensor.requires_grad, made_by
