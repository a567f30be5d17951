"""Autocast: enabled, dtype and the cache flag, for every device type that has it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

_Settings = list[tuple[bool, torch.dtype]]
"""Enabled, and the dtype: for each device type that has autocast."""


class Autocast:
    """The setting when made."""

    def __init__(self) -> None:
        self._settings = _settings()
        self._cache = torch.is_autocast_cache_enabled()

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """The captured setting in place, as a nested autocast block would have it.

        Set through torch's own switches: `torch.autocast` warns about settings that were legal when captured.
        """
        present, present_cache = _settings(), torch.is_autocast_cache_enabled()
        torch.autocast_increment_nesting()
        try:
            _change(present, self._settings)
            torch.set_autocast_cache_enabled(self._cache)
            yield
        finally:
            _change(_settings(), present)
            torch.set_autocast_cache_enabled(present_cache)
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()


@functools.cache
def _device_types() -> tuple[str, ...]:
    available: Any = torch.amp.is_autocast_available
    return tuple(device for device in ("cpu", "cuda", "xpu", "mps", "hpu") if available(device))


def _settings() -> _Settings:
    return [
        (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _device_types()
    ]


def _change(present: _Settings, wanted: _Settings) -> None:
    if present == wanted:
        return
    for device, (enabled, dtype) in zip(_device_types(), wanted, strict=True):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
