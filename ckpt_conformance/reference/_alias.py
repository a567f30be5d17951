"""Sharing without a compiler: storages that do not own their memory, an attribute that keeps the owner."""

from __future__ import annotations

from typing import Any

import torch

_OWNER = "_checkpoint_owner"
"""The attribute that holds the owner, on a storage's Python object: that lives as long as the StorageImpl."""


def available() -> bool:
    """Whether this torch can put other memory under a storage from Python (2.12 and newer)."""
    return hasattr(torch.UntypedStorage, "_swap_data_ptr_") and hasattr(
        torch._C, "_construct_storage_from_data_pointer"
    )


def share(dst: torch.UntypedStorage, src: torch.UntypedStorage) -> None:
    """Let dst show src's bytes and keep them alive; neither can be resized afterwards."""
    owner = _owner_of(src)
    _swap(dst, _alias(owner))
    setattr(dst, _OWNER, owner)


def _owner_of(src: torch.UntypedStorage) -> torch.UntypedStorage:
    """The storage that owns src's bytes: a new one at the first sharing, to which they move.

    So whatever becomes of src afterwards takes the bytes from nobody.
    """
    owner: torch.UntypedStorage | None = getattr(src, _OWNER, None)
    if owner is not None and owner.data_ptr() == src.data_ptr():
        return owner
    owner = torch.UntypedStorage(0, device=src.device)
    _swap(owner, src)
    _swap(src, _alias(owner))
    setattr(src, _OWNER, owner)
    return owner


def _alias(owner: torch.UntypedStorage) -> torch.UntypedStorage:
    """A storage on the same bytes that does not own them."""
    construct: Any = torch._C._construct_storage_from_data_pointer
    alias: torch.UntypedStorage = construct(owner.data_ptr(), owner.device, owner.nbytes())
    return alias


def _swap(one: Any, other: torch.UntypedStorage) -> None:
    one._swap_data_ptr_(other)
