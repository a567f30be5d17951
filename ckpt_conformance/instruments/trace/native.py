"""The references that live in C++ and that the collector does not see: of tensors, nodes, saved tensors.

Nothing here unpacks a saved tensor: `_saved_*` and `saved_tensors` run the unpack hooks, and so recompute;
`_raw_saved_*` does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

Edge = tuple[str, Any]
"""How an attribute is written after its owner, such as `.grad_fn`, and what it refers to."""

_RAW = "_raw_saved_"
_SAVED_TENSOR: type = torch._C._autograd.SavedTensor
UNTRACKED: frozenset[type] = frozenset({_SAVED_TENSOR})
"""Types whose objects the collector does not track though they refer to others."""


class Sort(IntEnum):
    """How the references of an object of some type are found."""

    PLAIN = 0
    TENSOR = 1
    NODE = 2
    SAVED = 3


# weakly, as a class that a function defines keeps that function's variables alive
_sorts: WeakKeyDictionary[type, Sort] = WeakKeyDictionary()
_raw_names: WeakKeyDictionary[type, tuple[str, ...]] = WeakKeyDictionary()


def sort_of(kind: type) -> Sort:
    """Which sort the objects of a type are."""
    found = _sorts.get(kind)
    if found is None:
        found = _sorts[kind] = _find_sort(kind)
    return found


def _find_sort(kind: type) -> Sort:
    if kind is _SAVED_TENSOR:
        return Sort.SAVED
    if issubclass(kind, Tensor):
        return Sort.TENSOR
    names = set().union(*(vars(base) for base in kind.__mro__))
    return Sort.NODE if {"next_functions", "_sequence_nr"} <= names else Sort.PLAIN


def native_edges(value: Any) -> Iterator[Edge]:
    """What an object refers to from C++, in an order that does not change; nothing for a plain object."""
    sort = sort_of(type(value))
    if sort is Sort.TENSOR:
        yield from _of_tensor(value)
    elif sort is Sort.NODE:
        yield from _of_node(value)
    elif sort is Sort.SAVED:
        yield from _of_saved(value)


def _of_tensor(tensor: Tensor) -> Iterator[Edge]:
    if tensor.is_leaf or tensor.retains_grad:
        yield ".grad", tensor.grad
    if not tensor.is_leaf:
        yield ".grad_fn", tensor.grad_fn
    if tensor._is_view():
        yield "._base", tensor._base


def _of_node(node: Any) -> Iterator[Edge]:
    for position, (following, _) in enumerate(node.next_functions):
        yield f".next_functions[{position}][0]", following
    yield ".variable", getattr(node, "variable", None)
    for name, saved in raw_saved(node):
        yield f".{name}", saved
    metadata = getattr(node, "metadata", None)
    yield ".metadata", metadata or None
    for position, hook in enumerate(_hooks_of_node(node)):
        yield f".hooks[{position}]", hook


def _hooks_of_node(node: Any) -> list[Any]:
    """The hooks of a node, read from the dictionary that a hook of ours is put into for a moment."""
    found: list[Any] = []
    for register in (node.register_prehook, node.register_hook):
        handle = register(_nothing)
        hooks = handle.hooks_dict_ref()
        handle.remove()
        found += list((hooks or {}).values())
    return found


def _nothing(*_: Any) -> None:
    """A hook that does nothing."""


def _of_saved(saved: Any) -> Iterator[Edge]:
    yield ".data", saved_data(saved)
    yield ".unpack_hook", getattr(saved, "unpack_hook", None)


def saved_data(saved: Any) -> Any:
    """What a saved tensor holds, packed as it is; None where it is cleared or this torch does not tell."""
    try:
        return getattr(saved, "data", None)
    except RuntimeError:  # freed already
        return None


def raw_saved(node: Any) -> Iterator[Edge]:
    """The saved tensors of a node, none of them unpacked, by the name they go by."""
    for name in _names_of_raw(type(node)):
        try:
            value = getattr(node, name)
        except RuntimeError:  # freed already, which older versions of torch report by raising
            continue
        if isinstance(value, tuple):
            yield from ((f"{name}[{position}]", saved) for position, saved in enumerate(value))
        elif value is not None:
            yield name, value


def _names_of_raw(kind: type) -> tuple[str, ...]:
    names = _raw_names.get(kind)
    if names is None:
        names = _raw_names[kind] = tuple(sorted(name for name in dir(kind) if name.startswith(_RAW)))
    return names
