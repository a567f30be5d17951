"""What stands in for a saved tensor: in the graph, in the frame's memory of it, and in the recompute."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..errors import CheckpointError

if TYPE_CHECKING:
    from .frame import Frame


class Slot:
    """What the original graph keeps in place of a saved tensor."""

    __slots__ = ("frame", "number")

    def __init__(self, frame: Frame, number: int) -> None:
        self.frame = frame
        self.number = number


class Mark:
    """What is remembered of a tensor that the first run saved, without keeping it alive."""

    __slots__ = ("form", "seen", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.form = _form(tensor)
        self.version = tensor._version
        self.seen = weakref.ref(tensor)

    def difference(self, tensor: Tensor) -> str:
        """How a tensor that the recompute saves at the same place differs; empty where it does not."""
        if _form(tensor) != self.form:
            return f"the forward saved {_described(self.form)}, the recompute {_described(_form(tensor))}"
        if self.seen() is tensor and tensor._version != self.version:
            return (
                "it was changed in place since the forward saved it "
                f"(version {self.version} became {tensor._version})"
            )
        return ""

    def outside(self) -> Tensor | None:
        """The tensor, where it is a leaf that outlived the region: a parameter, a buffer, an input."""
        tensor = self.seen()
        return tensor if tensor is not None and tensor.is_leaf else None


def _form(tensor: Tensor) -> tuple[torch.Size, torch.dtype, torch.device, torch.layout]:
    return tensor.shape, tensor.dtype, tensor.device, tensor.layout


def _described(form: tuple[Any, ...]) -> str:
    shape, dtype, device, layout = form
    return f"shape {tuple(shape)} of {dtype} on {device} ({layout})"


class Value:
    """A recomputed tensor, cut off the recompute's graph, with the version that the graph saved."""

    __slots__ = ("_version", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        # with its graph it would close a cycle through C++ that nobody frees; without need for one, the very
        # object is kept, so that a custom function gets back what it saved
        self.tensor = tensor.detach() if tensor.requires_grad else tensor
        self._version = tensor._version

    def taken(self, name: str) -> Tensor:
        """The tensor, for the graph.

        Raises:
            CheckpointError: The region changed it in place after saving it, which is an error in a plain run
                too.
        """
        if self.tensor._version != self._version:
            raise CheckpointError(
                f"one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: {name} changes a {_described(_form(self.tensor))} after an operation saved it "
                f"(version {self._version} became {self.tensor._version})"
            )
        return self.tensor


class Loan:
    """What the recompute's own graph keeps: the tensor while the region runs, nothing afterwards.

    So a region that stashes one of its tensors keeps that tensor alive and not the whole recompute.
    """

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self._tensor: Tensor | None = tensor

    def read(self) -> Tensor:
        """The tensor, for a backward within the region.

        Raises:
            CheckpointError: The recompute is over.
        """
        if self._tensor is None:
            raise CheckpointError(
                "a backward went through the graph of a finished recompute: go through the forward's graph, "
                "and keep no tensors that a region left behind in its recompute"
            )
        return self._tensor

    def end(self) -> None:
        """The recompute is over."""
        self._tensor = None
