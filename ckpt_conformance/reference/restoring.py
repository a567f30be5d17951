"""One region's output while it is discarded: what may go, how it goes, and how it comes back."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from .engine import Frame
from .engine.discarded import DISCARDED
from .errors import CheckpointError
from .share import discard, form, share_bytes, storage_of


class Restorer:
    """Discards a region's outputs and restores them with its first recompute.

    Args:
        frame: The region.
        outputs: Its output's leaves.
        inputs: Its inputs' leaves.
    """

    def __init__(self, frame: Frame, outputs: list[Any], inputs: list[Any]) -> None:
        tensors = [leaf for leaf in outputs if isinstance(leaf, Tensor)]
        kept = _addresses([*inputs, *frame.captured.tensors(), *frame.outside()])
        self._frame: Frame | None = frame
        self._forms = [_whole_form(tensor) for tensor in tensors]
        self._pattern = _pattern(tensors)
        # cut off the graph, but on the same version counter: an in-place change of the output shows
        self._going = {
            number: tensor.detach()
            for number, tensor in enumerate(tensors)
            if _made_inside(tensor, frame.made) and _is_free(tensor, kept)
        }
        self._versions = {number: tensor._version for number, tensor in self._going.items()}
        self._discarded = False

    def discard(self, hook_tensor: Tensor) -> None:
        """Free what may go; the hook tensor's gradient brings it back.

        Raises:
            CheckpointError: It could not come back, or not as it was. Nothing is freed then.
        """
        self._check_hook(hook_tensor)
        self._check_versions("was changed in place by its consumer, which a recompute cannot bring back")
        if not self._going:
            return
        assert self._frame is not None
        self._frame.receiver = weakref.WeakMethod(self._receive)
        hook_tensor.register_hook(self._on_gradient)
        self._discarded = True
        for storage in self._storages().values():
            discard(storage, self._message())
            DISCARDED[storage._cdata] = self

    def restore(self) -> None:
        """Bring the outputs back, unless they are back already."""
        if self._discarded and self._frame is not None:
            self._frame.restore()

    def _on_gradient(self, _gradient: Tensor) -> None:
        self.restore()

    def _receive(self, outputs: list[Any]) -> None:
        """Take the outputs of a recompute; all is checked before anything is shared."""
        if not self._discarded:
            return
        again = [leaf for leaf in outputs if isinstance(leaf, Tensor)]
        self._check_outputs(again)
        self._check_versions("was changed in place while its memory was discarded")
        for number, storage in self._storages().items():
            DISCARDED.pop(storage._cdata, None)
            share_bytes(storage, again[number].untyped_storage())
        self._frame, self._going, self._discarded = None, {}, False

    def _storages(self) -> dict[int, torch.UntypedStorage]:
        """Each storage once, under the number of the first output that lies on it."""
        storages = {number: tensor.untyped_storage() for number, tensor in self._going.items()}
        first = {storage._cdata: number for number, storage in reversed(storages.items())}
        return {number: storages[number] for number in sorted(first.values())}

    def _check_hook(self, hook_tensor: Tensor) -> None:
        if not hook_tensor.requires_grad:
            raise CheckpointError(
                "the hook tensor needs no grad, so nothing would ever bring the output back"
            )
        storage = storage_of(hook_tensor)
        if storage is not None and any(other._cdata == storage._cdata for other in self._storages().values()):
            raise CheckpointError(
                "the hook tensor lies on the output's own memory: its gradient comes after the consumers "
                "needed the output; give a tensor that they computed"
            )

    def _check_versions(self, what: str) -> None:
        for number, tensor in self._going.items():
            if tensor._version != self._versions[number]:
                raise CheckpointError(f"output {number} of {self._name()} {what}")

    def _check_outputs(self, again: list[Tensor]) -> None:
        found = [_whole_form(tensor) for tensor in again]
        if len(found) != len(self._forms):
            raise CheckpointError(
                f"the recompute of {self._name()} gave {len(found)} tensors, the forward {len(self._forms)}"
            )
        for number, (wanted, got) in enumerate(zip(self._forms, found, strict=True)):
            if wanted != got:
                raise CheckpointError(
                    f"the recompute of {self._name()} gave another output {number}: device, dtype, layout, "
                    f"shape, strides, offset, storage bytes were {wanted} in the forward and are {got}"
                )
        if _pattern(again) != self._pattern:
            raise CheckpointError(
                f"the outputs of {self._name()} share memory otherwise in the recompute than in the forward"
            )

    def _name(self) -> str:
        return "the region" if self._frame is None else self._frame.name

    def _message(self) -> str:
        return (
            f"this tensor is an output of {self._name()} whose memory was discarded; it comes back in "
            "backward, with the gradient of the hook tensor given to discard_output_and_register_recompute"
        )


def _addresses(values: Iterable[Any]) -> set[int]:
    storages = (storage_of(value) for value in values if isinstance(value, Tensor))
    return {storage._cdata for storage in storages if storage is not None}


def _made_inside(tensor: Tensor, made: range) -> bool:
    """Whether the region itself computed the tensor, and what it is a view of."""
    base = tensor._base
    return _has_node_of(tensor, made) and (base is None or _has_node_of(base, made))


def _has_node_of(tensor: Tensor, made: range) -> bool:
    return tensor.grad_fn is not None and tensor.grad_fn._sequence_nr() in made


def _is_free(tensor: Tensor, kept: set[int]) -> bool:
    """Whether nothing that outlives the region lies on the tensor's memory, as far as can be told.

    An inference tensor has no version by which a change of it would show.
    """
    if tensor.is_inference():
        return False
    storage = storage_of(tensor)
    return storage is not None and storage._cdata not in kept and storage.resizable() and storage.nbytes() > 0


def _whole_form(tensor: Tensor) -> tuple[Any, ...]:
    storage = storage_of(tensor)
    return (*form(tensor), None if storage is None else storage.nbytes())


def _pattern(tensors: list[Tensor]) -> list[int]:
    """For each tensor the first one on the same storage."""
    storages = [storage_of(tensor) for tensor in tensors]
    addresses = [
        -1 - number if storage is None else storage._cdata for number, storage in enumerate(storages)
    ]
    return [addresses.index(address) for address in addresses]
