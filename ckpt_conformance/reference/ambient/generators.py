"""Random generators: the CPU's, every device's in use, and explicit ones that the region is given."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import CheckpointError
from .turns import Pack, turn


class _Generator(NamedTuple):
    read: Callable[[], Tensor]
    write: Callable[[Tensor], Any]


class Generators:
    """The states before a region, to be replayed in its recompute."""

    def __init__(self, values: list[Any]) -> None:
        self._explicit = [_explicit(value) for value in values if isinstance(value, torch.Generator)]
        self._generators = [_CPU, *_devices(), *self._explicit]
        self._before: list[Tensor] = []
        self._after: Tensor | None = None
        self._had_devices = _initialized()

    @contextlib.contextmanager
    def drawn_from(self, pack: Pack | None = None) -> Iterator[None]:
        """Around the region's first run; `pack` as for `turn`."""
        with turn(pack):
            # within the turn: what another region draws meanwhile is not this region's
            self._before = [generator.read() for generator in self._generators]
            yield
            after = _CPU.read()
            # five thousand bytes a region, kept twice only where the region drew something
            self._after = self._before[0] if torch.equal(after, self._before[0]) else after
        if not self._had_devices:
            self._add_devices()

    def _add_devices(self) -> None:
        """Take in devices that the region itself was the first to use: they started at their seed."""
        for device in _devices():
            self._generators.append(device)
            self._before.append(_at_its_seed(device.read()))

    @contextlib.contextmanager
    def replayed(self, pack: Pack | None = None) -> Iterator[None]:
        """The states before the region in place; the present ones are put back. `pack` as for `turn`.

        Raises:
            CheckpointError: The region drew other random numbers than in its first run.
        """
        with turn(pack):
            present = [generator.read() for generator in self._generators]
            try:
                self._write(self._before)
                yield
                self._compare()
            finally:
                self._write(present)

    def _write(self, states: list[Tensor]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            generator.write(state)

    def _compare(self) -> None:
        """Notice when another thread got in between, in whichever of the two runs.

        A recompute that draws nothing is left alone: what moved the generator before was not the region.
        """
        if self._after is None:
            return
        end = _CPU.read()
        if not torch.equal(end, self._after) and not torch.equal(end, self._before[0]):
            raise CheckpointError(
                "the recompute drew other random numbers than the forward: the region, or another thread "
                "meanwhile, moved the CPU generator differently"
            )


_CPU = _Generator(torch.default_generator.get_state, torch.default_generator.set_state)


def _explicit(generator: torch.Generator) -> _Generator:
    return _Generator(generator.get_state, generator.set_state)


def _initialized() -> bool:
    return torch.cuda.is_initialized() or torch.xpu.is_initialized() or _has_mps()


_has_mps = functools.cache(torch.mps.is_available)


def _devices() -> list[_Generator]:
    """The default generators of every accelerator that this process uses."""
    found = [
        _explicit(generator)
        for module in (torch.cuda, torch.xpu)
        if module.is_initialized()
        for generator in module.default_generators
    ]
    if _has_mps():
        found.append(_Generator(torch.mps.get_rng_state, torch.mps.set_rng_state))
    return found


def _at_its_seed(state: Tensor) -> Tensor:
    """A philox generator's state before its first number: the seed's eight bytes, then an offset of 0."""
    start = state.clone()
    start[8:] = 0
    return start
