"""Tensors that a region reaches without being given them: by closure, as a bound argument, as a parameter."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ..errors import CheckpointError


class Captured:
    """Notices when such a tensor is changed in place between the forward and the recompute.

    Two kinds are seen: what the function itself closes over or has bound, and the leaves into which the
    region's graph accumulates gradients. What the region changes itself in its first run (a counter, a
    running mean) is left alone.

    Args:
        values: What the function closes over or has bound (`captured_values`), and what its arguments hide
            (`hidden_values`).
    """

    def __init__(self, values: list[Any]) -> None:
        tensors = [value for value in values if _is_versioned(value)]
        self._watched = [(weakref.ref(tensor), tensor._version) for tensor in tensors]

    def settle(self, leaves: list[Tensor]) -> None:
        """Take stock after the first run, in whose graph these leaves were found."""
        unchanged = [(seen, version) for seen, version in self._watched if _version(seen) == version]
        self._watched = unchanged + [
            (weakref.ref(leaf), leaf._version) for leaf in leaves if _is_versioned(leaf)
        ]

    def tensors(self) -> list[Tensor]:
        """Those still alive."""
        return [tensor for seen, _ in self._watched if (tensor := seen()) is not None]

    def check(self, name: str) -> None:
        """Refuse a recompute that would read something else than the forward did.

        Raises:
            CheckpointError: A captured tensor was changed in place.
        """
        for seen, version in self._watched:
            found = _version(seen)
            if found is not None and found != version:
                raise CheckpointError(
                    f"a tensor that {name} reaches by closure was changed in place after the forward "
                    f"(version {version} became {found}), so the region cannot be recomputed"
                )


def captured_values(fn: Callable[..., Any]) -> list[Any]:
    """What a function closes over or has bound, containers opened.

    Of an object that is called, such as a module, the functions that it holds are looked into.
    """
    if isinstance(fn, functools.partial):
        return [*tree_leaves((fn.args, fn.keywords)), *captured_values(fn.func)]
    if inspect.ismethod(fn):
        return captured_values(fn.__func__)
    if not inspect.isroutine(fn):
        held = [value for value in getattr(fn, "__dict__", {}).values() if inspect.isfunction(value)]
        return [found for function in held for found in captured_values(function)]
    cells = getattr(fn, "__closure__", None) or ()
    return tree_leaves([*(_contents(cell) for cell in cells), *_globals(fn)])


def hidden_values(arguments: list[Any]) -> list[Any]:
    """What dataclasses among a region's arguments hold: for torch's pytrees they are leaves."""
    fields = [
        getattr(value, field.name, None)
        for value in arguments
        if dataclasses.is_dataclass(value)
        for field in dataclasses.fields(value)
    ]
    return tree_leaves(fields)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _globals(fn: Callable[..., Any]) -> list[Any]:
    """The tensors and generators among the global variables that the function's own code names."""
    names = getattr(getattr(fn, "__code__", None), "co_names", ())
    values = [getattr(fn, "__globals__", {}).get(name) for name in names]
    return [value for value in values if isinstance(value, (Tensor, torch.Generator))]


def _is_versioned(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.is_inference()


def _version(seen: weakref.ref[Tensor]) -> int | None:
    tensor = seen()
    return None if tensor is None else tensor._version
