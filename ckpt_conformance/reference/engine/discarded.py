"""Which storages are discarded at present, and who can bring them back."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Protocol

from torch import Tensor

from ..share import storage_of


class Restorable(Protocol):
    """Whoever discarded a storage."""

    def restore(self) -> None:
        """Bring the memory back now."""


DISCARDED: weakref.WeakValueDictionary[int, Restorable] = weakref.WeakValueDictionary()
"""By the address of the StorageImpl, which is not used again as long as the one who discarded it lives."""


def restore_first(tensors: Iterable[Tensor]) -> None:
    """Bring back what a recompute is about to read: in a chain the later region may be asked first."""
    if not DISCARDED:
        return
    for tensor in tensors:
        storage = storage_of(tensor)
        owner = None if storage is None else DISCARDED.get(storage._cdata)
        if owner is not None:
            owner.restore()
