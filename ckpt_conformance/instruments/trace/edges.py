"""What objects refer to: the references that the collector sees together with those it does not."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from itertools import compress
from typing import Any

from ckpt_conformance.instruments.trace.native import UNTRACKED, Edge, native_edges, sort_of


class Edges:
    """References of objects, with the native ones remembered.

    Reading a native reference can make an object (the Python side of a tensor that only C++ had), and another
    one when it is read again. So each is read once and kept as long as this is.
    """

    def __init__(self) -> None:
        self._native: dict[int, list[Edge]] = {}
        self._owners: list[Any] = []
        self._into: dict[int, list[Any]] = {}

    def of(self, values: list[Any]) -> list[Any]:
        """What some objects refer to, duplicates included; objects that refer to nothing are left out."""
        found = gc.get_referents(*values)
        kept = list(filter(gc.is_tracked, found))
        kinds = set(map(type, found))
        if not UNTRACKED.isdisjoint(kinds):
            kept += compress(found, map(UNTRACKED.__contains__, map(type, found)))
        for value in self._with_native(values):
            kept += [child for _, child in self.native(value)]
        return kept

    def owners_of(self, ids: AbstractSet[int]) -> dict[int, Any]:
        """The objects, of those looked at, that refer natively to one of those with these ids."""
        return {id(owner): owner for number in ids for owner in self._into.get(number, ())}

    def native(self, value: Any) -> list[Edge]:
        """The native references of an object; those to nothing are left out."""
        if not sort_of(type(value)):
            return []
        found = self._native.get(id(value))
        if found is None:
            found = [(text, child) for text, child in native_edges(value) if child is not None]
            self._native[id(value)] = found
            self._owners.append(value)
            for _, child in found:
                self._into.setdefault(id(child), []).append(value)
        return found

    def owners(self, target: int) -> int:
        """How many native references to the object of an id were seen."""
        return len(self._into.get(target, ()))

    def own(self) -> set[int]:
        """The ids of the containers that this keeps its notes in: no holders in their own right."""
        lists = {id(edges) for edges in self._native.values()}
        pairs = {id(edge) for edges in self._native.values() for edge in edges}
        into = set(map(id, self._into.values()))
        notes = {id(self), id(vars(self)), id(self._native), id(self._owners), id(self._into)}
        return lists | pairs | into | notes

    def _with_native(self, values: list[Any]) -> Iterator[Any]:
        kinds = set(map(type, values))
        native = {kind for kind in kinds if sort_of(kind)}
        return compress(values, map(native.__contains__, map(type, values))) if native else iter(())


def chunks(values: list[Any], size: int) -> Iterable[list[Any]]:
    """A list in pieces."""
    return (values[start : start + size] for start in range(0, len(values), size))
