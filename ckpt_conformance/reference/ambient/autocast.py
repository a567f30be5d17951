"""Autocast: enabled, dtype and the cache flag, for every device type that has it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

_DEVICE_TYPES = ("cpu", "cuda", "xpu", "mps", "hpu")


class _Setting(NamedTuple):
    enabled: bool
    dtype: torch.dtype


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
            _apply(self._settings, self._cache)
            yield
        finally:
            _apply(present, present_cache)
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()


def _settings() -> dict[str, _Setting]:
    available: Any = torch.amp.is_autocast_available
    return {
        device: _Setting(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in _DEVICE_TYPES
        if available(device)
    }


def _apply(settings: dict[str, _Setting], cache: bool) -> None:
    for device, setting in settings.items():
        torch.set_autocast_enabled(device, setting.enabled)
        torch.set_autocast_dtype(device, setting.dtype)
    torch.set_autocast_cache_enabled(cache)
