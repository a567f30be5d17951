"""The walk: breadth first from the roots over the whole heap, and the shortest path to a target.

Dictionaries cost nothing: whether an instance's attributes live in a dictionary of their own depends on the
version of Python and on who looked at it, and must not decide which path is the shortest.

The bookkeeping is one id and one reference for each object visited. No parent is noted on the way out; the
few that matter are found on the way back, layer by layer.
"""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress, filterfalse, repeat
from operator import is_, not_
from typing import Any

import torch

from ckpt_conformance.instruments.names import type_name
from ckpt_conformance.instruments.trace.edges import Edges, chunks
from ckpt_conformance.instruments.trace.labels import fold, label
from ckpt_conformance.instruments.trace.roots import Root, RootKind, roots

_WIDE, _NARROW = 4096, 256


@dataclass(frozen=True, slots=True)
class Hop:
    """One reference of a path.

    Attributes:
        label: How it is written after what came before it.
        type: The type of the object it leads to.
        native: Whether the collector does not see it.
    """

    label: str
    type: str
    native: bool


@dataclass(frozen=True, slots=True)
class Path:
    """The way from a root to an object.

    Attributes:
        root: Where it begins.
        hops: The references, in order; none where the root is the object.
        text: The whole, as a person would write it.
    """

    root: Root
    hops: tuple[Hop, ...]
    text: str


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """No collection while looking, and no code of tensor subclasses run by reading their attributes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        with torch._C.DisableTorchFunctionSubclass():
            yield
    finally:
        if was_on:
            gc.enable()


class Walk:
    """One walk over the heap of this moment.

    It keeps what it visited alive until `close`; nothing may run in between that should free memory.
    """

    def __init__(self, beginnings: list[Root] | None = None, *, leave_out: Iterable[Any] = ()) -> None:
        self.edges = Edges()
        self.roots = roots() if beginnings is None else beginnings
        self._layers: list[list[Any]] = []
        self._groups: list[int] = []
        self._hits: set[int] = set()
        # a set of ids, not of objects: most of them cannot be hashed
        self.visited: set[int] = {id(value) for value in leave_out}
        self.visited |= {id(self), id(vars(self)), id(self.roots), id(self._layers), id(self.edges)}

    def run(self, targets: Iterable[int]) -> set[int]:
        """Visit the heap until every target, given by its id, was reached; the ids of those that were."""
        missing = set(targets)
        layer, group = self._unseen([root.value for root in self.roots]), 0
        while layer:
            following: list[Any] = []
            while layer:  # the layer itself, and then dictionaries in it, which are of the same distance
                self._layers.append(layer)
                self._groups.append(group)
                found = self._expand(layer)
                layer, others = _parted(found)
                following += others
            reached = missing & self.visited
            if reached:
                self._hits |= {group, group + 1}
                missing -= reached
            layer, group = following, group + 1
            if not missing:
                self._layers.append(layer)
                self._groups.append(group)
                break
        return set(targets) - missing

    def _expand(self, layer: list[Any]) -> list[Any]:
        found: list[Any] = []
        for chunk in chunks(layer, _WIDE):
            found += self._unseen(self.edges.of(chunk))
        return found

    def _unseen(self, values: list[Any]) -> list[Any]:
        by_id = dict(zip(map(id, values), values, strict=True))
        # in the order in which they were found, which is nearly that of memory, and so is read faster
        fresh = list(filterfalse(self.visited.__contains__, by_id))
        self.visited.update(fresh)
        return list(map(by_id.__getitem__, fresh))

    def paths_to(self, targets: Iterable[int]) -> dict[int, Path]:
        """The shortest path to each object that was reached; of several, the first by their texts."""
        return _Back(self.edges, self.roots, self._layers, self._groups, self._hits).paths(set(targets))

    def close(self) -> None:
        """Let go of everything visited."""
        self._layers.clear()
        self.roots = []
        self.edges = Edges()
        self.visited.clear()


def _parted(values: list[Any]) -> tuple[list[Any], list[Any]]:
    """The dictionaries among some objects, and the others."""
    dicts = list(map(is_, map(type, values), repeat(dict)))
    return list(compress(values, dicts)), list(compress(values, map(not_, dicts)))


_Steps = list[dict[int, Any]]
_Way = tuple[Root, list[Hop]]


class _Back:
    """The way back from some objects: all of their shortest paths, of which one is chosen for each."""

    def __init__(
        self,
        edges: Edges,
        beginnings: list[Root],
        layers: list[list[Any]],
        groups: list[int],
        hits: set[int],
    ) -> None:
        self._edges = edges
        self._roots = beginnings
        self._layers = layers
        self._groups = groups
        self._hits = hits

    def paths(self, targets: set[int]) -> dict[int, Path]:
        """The paths to those of the targets that are in a layer."""
        best = self._best(self._predecessors(targets))
        # without the root's value: a path that is kept must keep nothing alive
        return {
            number: Path(root._replace(value=None), tuple(hops), written(root, hops))
            for number, (root, hops) in best.items()
            if number in targets
        }

    def _predecessors(self, targets: set[int]) -> _Steps:
        """The objects on any shortest path, by layer."""
        wanted: _Steps = [
            {id(value): value for value in layer if id(value) in targets}
            if group in self._hits and not targets.isdisjoint(map(id, layer))
            else {}
            for layer, group in zip(self._layers, self._groups, strict=True)
        ]
        for at in range(len(wanted) - 1, 0, -1):
            if wanted[at]:
                for earlier in self._layers_before(at):
                    wanted[earlier] |= self._parents(self._layers[earlier], wanted[at])
        return wanted

    def _layers_before(self, at: int) -> list[int]:
        """The layers from which an object of a layer was found: of its group where it is a dictionary."""
        group = self._groups[at - 1]
        if self._groups[at] == group:
            return [at - 1]
        return [earlier for earlier in range(at) if self._groups[earlier] == group]

    def _parents(self, layer: list[Any], wanted: dict[int, Any]) -> dict[int, Any]:
        ids = wanted.keys()
        found = self._edges.owners_of(ids)
        if found:
            found = {id(value): value for value in layer if id(value) in found}
        for chunk in chunks(layer, _NARROW):
            if not ids.isdisjoint(map(id, gc.get_referents(*chunk))):
                direct = (one for one in chunk if not ids.isdisjoint(map(id, gc.get_referents(one))))
                found |= {id(value): value for value in direct}
        return found

    def _best(self, steps: _Steps) -> dict[int, _Way]:
        best: dict[int, _Way] = {}
        for root in self._roots:
            if steps and id(root.value) in steps[0]:
                best.setdefault(id(root.value), (root, []))
        # all of them before the first is written down: writing a reference can move an instance's attributes
        # into a dictionary, and then they are no longer what the instance refers to
        links = [self._links(steps, at) for at in range(1, len(steps))]
        for at, found in enumerate(links, 1):
            self._extend(best, found, steps[at])
        return best

    def _links(self, steps: _Steps, at: int) -> list[tuple[Any, set[int]]]:
        """Each object that leads into a layer, and which of that layer's objects it leads to."""
        children = steps[at].keys()
        if not children:
            return []
        parents = [parent for earlier in self._layers_before(at) for parent in steps[earlier].values()]
        return [(parent, children & set(map(id, self._edges.of([parent])))) for parent in parents]

    def _extend(
        self, best: dict[int, _Way], links: list[tuple[Any, set[int]]], children: dict[int, Any]
    ) -> None:
        """Add the best way to each child, given the best ways to all that lead to it."""
        ways: dict[int, list[_Way]] = {}
        for parent, numbers in links:
            root, hops = best[id(parent)]
            for number in numbers:
                way = root, [*hops, hop(self._edges, parent, children[number])]
                ways.setdefault(number, []).append(way)
        best |= {number: min(some, key=_order) for number, some in ways.items()}


def hop(edges: Edges, parent: Any, child: Any) -> Hop:
    """The reference from one object to another, written down."""
    native = edges.native(parent)
    name = type_name(child)
    text = label(parent, child, native)
    return Hop(text, name, any(found is child for _, found in native))


def written(root: Root, hops: Iterable[Hop]) -> str:
    """A path as a person would write it."""
    tail = "".join(one.label for one in hops)
    if root.kind is RootKind.FRAME:
        return fold(_FIRST_LOCAL.sub(r"\1", tail))
    return fold(f"{root.name}{tail}")


_FIRST_LOCAL = re.compile(r"^\['([^'\\]+)'\]")


def _order(way: _Way) -> tuple[str, str, str]:
    return written(*way), way[0].kind, way[0].name
