"""A region's inputs, kept as the autograd engine keeps saved tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..errors import CheckpointError


class SavedInputs:
    """Positional and keyword inputs; every tensor in them, however deep, is a saved variable.

    So an in-place change is noticed, hooks around the region see the tensors (an enclosing region drops them
    and recomputes), and containers that the region changes are rebuilt as they were passed.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, self._spec = tree_flatten((args, kwargs))
        self._places = [place for place, leaf in enumerate(leaves) if _is_savable(leaf)]
        self._saver = _save([leaves[place] for place in self._places])
        for place in self._places:
            leaves[place] = None
        self._leaves = leaves

    def others(self) -> list[Any]:
        """The leaves that are not kept as saved tensors."""
        return self._leaves

    def tensors(self, name: str) -> list[Tensor]:
        """The saved tensors; an enclosing region recomputes them now.

        Raises:
            CheckpointError: One of them was changed in place since.
        """
        try:
            return list(self._saver.grad_fn.saved_tensors)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error) or isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                f"an input of {name} was changed in place after the forward, so the region cannot be "
                f"recomputed: {error}"
            ) from error

    def rebuilt(self, tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The inputs as passed, with these in place of the saved tensors."""
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = tree_unflatten(leaves, self._spec)
        return args, kwargs


def _is_savable(leaf: Any) -> bool:
    # torch refuses to save inference tensors, though a region may use them where nothing is saved
    return isinstance(leaf, Tensor) and not leaf.is_inference()


def cut(tensor: Tensor) -> Tensor:
    """The tensor without the graph behind it; a leaf stays a leaf, anything else does not become one.

    A leaf is held by the graph it is used in, gradient included. What was no leaf gets an empty one as its
    origin, so that a graph which outlives the recompute keeps nothing of it alive.
    """
    if not tensor.requires_grad:
        return tensor
    if tensor.is_leaf:
        return tensor.detach().requires_grad_()
    with torch.enable_grad():
        result: Tensor = _Origin.apply(torch.empty(0, requires_grad=True), [tensor.detach()])
    return result


def _save(tensors: list[Tensor]) -> Any:
    """An empty tensor whose node has saved the tensors; before torch 2.13 the node dies with its tensor."""
    with torch.enable_grad():
        return _Saver.apply(torch.empty(0, requires_grad=True), tensors)


class _Saver(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, tensors: list[Tensor]) -> Tensor:
        # in a list: as inputs of the function they would need a derivative in forward mode
        ctx.save_for_backward(*tensors)
        return anchor.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # noqa: ARG004
        raise AssertionError("this node is never part of a backward")


class _Origin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, anchor: Tensor, held: list[Tensor]) -> Tensor:  # noqa: ARG004
        return held.pop()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # noqa: ARG004
        return None, None
