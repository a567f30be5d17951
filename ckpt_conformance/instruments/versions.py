"""The version ledger: which tensors' version counters moved.

Autograd notices an in-place change of a saved tensor by its version counter alone. An implementation that
writes a recomputed value *into* a tensor moves the counter and makes autograd refuse a right backward; one
that hides its writes from the counter hides other people's too.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class VersionMove:
    """A version counter that is not where it was.

    Attributes:
        name: What the tensor was watched as.
        before: Its version when it was watched.
        after: Its version now.
    """

    name: str
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.name}: version {self.before} became {self.after}"


class VersionLedger:
    """Notes the versions of tensors, without keeping them alive."""

    def __init__(self) -> None:
        self._watched: dict[str, tuple[weakref.ref[Tensor], int]] = {}

    def watch(self, name: str, tensor: Tensor) -> None:
        """Note a tensor's present version.

        Raises:
            ValueError: Another tensor is watched under that name.
        """
        if name in self._watched:
            raise ValueError(f"a tensor named {name!r} is watched already")
        self._watched[name] = weakref.ref(tensor), tensor._version

    def moved(self) -> tuple[VersionMove, ...]:
        """Every watched tensor that is alive and whose version is another, in the order they were watched."""
        alive = [(name, seen(), before) for name, (seen, before) in self._watched.items()]
        return tuple(
            VersionMove(name, before, tensor._version)
            for name, tensor, before in alive
            if tensor is not None and tensor._version != before
        )
