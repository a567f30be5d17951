"""`share_storage`: one storage shows another's memory, for every view of it, without a copy."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import _alias, _extension
from .errors import CheckpointError

_WISH = "CKPT_REFERENCE_BACKEND"
_EXTENSION, _PYTHON = "extension", "python"


@dataclass(frozen=True, slots=True)
class Backend:
    """What shares storages here.

    Attributes:
        name: `extension` or `python`.
        guards: Whether reading a discarded output raises our message; it is undefined behaviour otherwise.
        remark: One line for a report.
        extension: The compiled module, or None.
    """

    name: str
    guards: bool
    remark: str
    extension: Any = None


def backend() -> Backend:
    """The backend in use; the first call may compile, so make it before any backward.

    The environment variable `CKPT_REFERENCE_BACKEND` asks for `extension` or `python`; without it the
    extension is taken, and Python where the extension cannot be built.

    Raises:
        CheckpointError: Neither can be had, or not the one asked for; the message names what to install.
    """
    return _made(os.environ.get(_WISH, ""))


@functools.cache
def _made(wish: str) -> Backend:
    if wish not in ("", _EXTENSION, _PYTHON):
        raise CheckpointError(f"{_WISH} is {wish!r}; it can be {_EXTENSION!r} or {_PYTHON!r}")
    if wish == _PYTHON:
        return _python("as asked for")
    try:
        return _compiled()
    except _extension.BuildError as error:
        if wish == _EXTENSION:
            raise CheckpointError(f"the storage sharing extension cannot be built: {error}") from error
        return _python(str(error))


def _compiled() -> Backend:
    module = _extension.load()
    guards = bool(module.GUARDS)
    lost = "" if guards else "; reading a discarded output is not caught with this torch"
    return Backend(_EXTENSION, guards, f"storage sharing: C++ extension{lost}", module)


def _python(why: str) -> Backend:
    if not _alias.available():
        raise CheckpointError(
            f"sharing storages needs a C++ compiler with Python's headers, or torch 2.12 or newer "
            f"(this is {torch.__version__}); {why}. Install g++ and the Python headers (python3-dev)."
        )
    remark = f"storage sharing: pure Python ({why}); reading a discarded output is not caught"
    return Backend(_PYTHON, False, remark)


def share_storage(dst: Tensor, src: Tensor) -> None:
    """Put src's memory under dst's storage: dst and every view of its storage show src's data.

    Nothing is copied or allocated and no version counter moves. The bytes live until the last of both
    storages is gone, whatever happens to the other in between.

    Args:
        dst: Any shape; its storage may be empty (discarded). What it held is freed.
        src: Of dst's shape, strides, offset, dtype and device, with at least the bytes that dst's view needs.

    Raises:
        CheckpointError: They differ in one of these, share a storage already, or have no storage of their
            own.
    """
    _refuse_unlike(dst, src)
    target, source = _storage(dst), _storage(src)
    if target._cdata == source._cdata:
        raise CheckpointError("share_storage: both tensors have the same storage already")
    needed = bytes_needed(dst)
    if source.nbytes() < needed:
        raise CheckpointError(
            f"share_storage: the destination's view needs {needed} bytes, the source's storage has "
            f"{source.nbytes()}"
        )
    share_bytes(target, source)


def _refuse_unlike(dst: Tensor, src: Tensor) -> None:
    for what, wanted, found in zip(_FORM, form(dst), form(src), strict=True):
        if wanted != found:
            raise CheckpointError(
                f"share_storage: the destination has {what} {wanted}, the source {found}; both must be alike"
            )


_FORM = ("device", "dtype", "layout", "shape", "strides", "storage offset")


def form(tensor: Tensor) -> tuple[Any, ...]:
    """What must be equal for a view to read another storage's memory rightly, in the order of `_FORM`."""
    strided = tensor.layout is torch.strided
    return (
        tensor.device,
        tensor.dtype,
        tensor.layout,
        tuple(tensor.shape),
        tensor.stride() if strided else None,
        tensor.storage_offset() if strided else None,
    )


def bytes_needed(tensor: Tensor) -> int:
    """How many bytes a storage must have for a strided view to lie within it."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset() + last + 1) * tensor.element_size()


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    storage = storage_of(tensor)
    if storage is None:
        raise CheckpointError(f"share_storage: a {type(tensor).__name__} has no memory of its own to share")
    return storage


def storage_of(tensor: Tensor) -> torch.UntypedStorage | None:
    """The tensor's storage, or None where it has none in plain memory: sparse, wrapper subclass, meta."""
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        return None
    if type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def share_bytes(dst: torch.UntypedStorage, src: torch.UntypedStorage) -> None:
    """`share_storage` for whole storages of one device, without any check."""
    if src.nbytes() == 0:
        return
    extension = backend().extension
    if extension is None:
        _alias.share(dst, src)
    else:
        extension.share(dst._cdata, src._cdata)


def discard(storage: torch.UntypedStorage, message: str) -> None:
    """Free a storage's memory; where the backend guards, reading it raises the message."""
    storage.resize_(0)
    extension = backend().extension
    if extension is not None:
        extension.refuse_access(storage._cdata, message)
