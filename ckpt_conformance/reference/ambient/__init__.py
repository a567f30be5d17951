"""The state around a region that its recompute has to see again, one kind a file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from .autocast import Autocast
from .generators import Generators
from .modes import Modes
from .streams import Streams
from .turns import Pack

__all__ = ["Ambient"]


class Ambient:
    """Captures the state when made; `replayed()` puts it in place and the present one back.

    Args:
        values: Whatever the region reaches; explicit generators among them are replayed too.
    """

    def __init__(self, values: list[Any]) -> None:
        self.generators = Generators(values)
        self.streams = Streams()
        self._autocast = Autocast()
        self._modes = Modes()
        self._dtype = torch.get_default_dtype()

    @contextlib.contextmanager
    def replayed(self, pack: Pack | None = None) -> Iterator[None]:
        """The captured state in place; the present one is put back at the end, also after an exception.

        Args:
            pack: What the recompute's saved tensors are packed with; see `turns.turn`.
        """
        with (
            self.streams.replayed(),
            self.generators.replayed(pack),
            self._autocast.replayed(),
            _default_dtype(self._dtype),
            torch.enable_grad(),
            # last: a user's mode is to see the region's operations, not ours
            self._modes.replayed(),
        ):
            yield


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    present = torch.get_default_dtype()
    if present is not dtype:
        torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(present)
