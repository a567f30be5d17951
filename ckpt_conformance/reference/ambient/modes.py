"""Torch function modes (torch.device among them) and dispatch modes, active again in the recompute.

Modes are put on torch's stacks and taken off again directly. Entering a mode a second time would run its
`__enter__`, which overwrites what its own `__exit__` needs: that is how torch.device leaves a dead context
behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

_C: Any = torch._C


class Modes:
    """The modes that are active when made."""

    def __init__(self) -> None:
        self._function = list(_get_current_function_mode_stack())
        self._dispatch = [mode for mode in _get_current_dispatch_mode_stack() if _is_users(mode)]

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """The captured function modes alone; the captured dispatch modes on top of the present ones.

        A dispatch mode around the backward alone, such as one that counts operations, keeps seeing the
        recompute.
        """
        with _function_modes(self._function), _dispatch_modes(self._dispatch):
            yield


def _is_users(mode: Any) -> bool:
    """Not one of torch's own tracing modes, whose place on the stack torch decides."""
    return getattr(mode, "_mode_key", None) is None and getattr(mode, "_dispatch_key", None) is None


@contextlib.contextmanager
def _function_modes(wanted: list[Any]) -> Iterator[None]:
    present = list(_get_current_function_mode_stack())
    _replace_function_modes(wanted)
    try:
        yield
    finally:
        _replace_function_modes(present)


def _replace_function_modes(wanted: list[Any]) -> None:
    while _C._len_torch_function_stack():
        _C._pop_torch_function_stack()
    for mode in wanted:
        _C._push_on_torch_function_stack(mode)


@contextlib.contextmanager
def _dispatch_modes(wanted: list[Any]) -> Iterator[None]:
    present = _get_current_dispatch_mode_stack()
    missing = [mode for mode in wanted if not any(mode is other for other in present)]
    for mode in missing:
        _C._push_on_torch_dispatch_stack(mode)
    try:
        yield
    finally:
        for _ in missing:
            _C._pop_torch_dispatch_stack(None)
