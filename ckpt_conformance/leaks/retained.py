"""Retained bytes: how much of the leaked memory no way leads to but through one object.

The objects that lead to the leaked tensors make up a graph, and its dominator tree says who alone keeps what;
memory that several storages or tensors share counts once.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Any

from torch import Tensor

from ckpt_conformance.instruments.census import reachable_nodes, tensors_among
from ckpt_conformance.instruments.trace.edges import Edges, chunks
from ckpt_conformance.instruments.trace.labels import fold, label
from ckpt_conformance.instruments.trace.native import raw_saved
from ckpt_conformance.instruments.trace.roots import Root, RootKind, roots
from ckpt_conformance.leaks.facts import Retained

_MOST = 20_000
"""With more objects that lead to a leak the tree is not worth its time."""
_CHUNK = 64
_OWN = "ckpt_conformance"
_TOP = 0
"""Stands for all roots together; no object has this id."""


class Retention:
    """The dominator tree of what leads to some tensors.

    It keeps what it visited alive until `close`.
    """

    def __init__(self, leaked: Sequence[Tensor], *, leave_out: Iterable[int] = ()) -> None:
        self._edges = Edges()
        self._into: dict[int, list[Any]] = {}
        self._objects: dict[int, Any] = {id(tensor): tensor for tensor in leaked}
        # a module's functions refer to its namespace too, and from there on everything leads to everything
        self._values: dict[int, tuple[Root, Any]] = {}
        for root in roots():
            self._values.setdefault(id(_namespace(root)), (root, _namespace(root)))
        self._tops = {number: f"{root.kind} {root.name}" for number, (root, _) in self._values.items()}
        self._skipped = {id(leaked), id(self._values), id(self._objects), id(self._into), *leave_out}
        self._skipped |= set(map(id, self._values.values()))
        self._parents: dict[int, int] = {}
        self._kept: dict[int, int] = {}
        self._note_native()
        if self._climb():
            self._weigh(leaked)

    def _note_native(self) -> None:
        tensors = tensors_among(gc.get_objects())
        nodes = reachable_nodes(tensors)
        saved = [one for node in nodes for _, one in raw_saved(node)]
        for owner in (*tensors, *nodes, *saved):
            for _, child in self._edges.native(owner):
                self._into.setdefault(id(child), []).append(owner)

    def _climb(self) -> bool:
        """Find all that leads to the leaked tensors, up to the roots; whether it was not too much."""
        # first, so that no list of ours is on it
        heap = gc.get_objects()
        wave = list(self._objects.values())
        skipped = self._skipped | self._edges.own() | set(map(id, self._into.values()))
        while wave and len(self._objects) < _MOST:
            ids = {id(value) for value in wave if id(value) not in self._tops}
            found = _referrers(heap, ids)
            found += [owner for number in ids for owner in self._into.get(number, ())]
            fresh = {id(value): value for value in found if id(value) not in self._objects}
            wave = [value for number, value in fresh.items() if number not in skipped and not _is_ours(value)]
            self._objects |= {id(value): value for value in wave}
        return not wave

    def _weigh(self, leaked: Sequence[Tensor]) -> None:
        import networkx as nx  # only where something leaks

        graph = nx.DiGraph()
        for number, value in self._objects.items():
            graph.add_node(number)
            for child in self._edges.of([value]):
                if id(child) in self._objects:
                    graph.add_edge(number, id(child))
        graph.add_edges_from((_TOP, number) for number in self._objects if number in self._tops)
        self._reach_the_rest(graph)
        weights = own_memory(leaked)
        graph.add_edges_from((one, -address) for address, (on_it, _) in weights.items() for one in on_it)
        self._parents = nx.immediate_dominators(graph, _TOP)
        self._add_up({-address: size for address, (_, size) in weights.items()})

    def _reach_the_rest(self, graph: Any) -> None:
        """Hang what no root leads to from the top, each tangle by one of its objects."""
        import networkx as nx

        graph.add_node(_TOP)
        rest = graph.subgraph(set(graph) - nx.descendants(graph, _TOP) - {_TOP})
        tangles = nx.condensation(rest)
        for tangle, before in list(tangles.in_degree()):
            if not before:
                members = tangles.nodes[tangle]["members"]
                graph.add_edge(_TOP, min(members, key=lambda one: type(self._objects[one]).__name__))

    def _add_up(self, sizes: dict[int, int]) -> None:
        for address, size in sizes.items():
            number = address
            while number != _TOP:
                number = self._parents.get(number, _TOP)
                self._kept[number] = self._kept.get(number, 0) + size

    def above(self, tensor: Tensor) -> tuple[Retained, ...]:
        """The objects that dominate a tensor, from the outermost to itself; none where it was too much."""
        chain, number = [], id(tensor)
        while number != _TOP and number in self._parents:
            chain.append(number)
            number = self._parents[number]
        chain.reverse()
        return tuple(
            Retained(what=self._named(before, number), bytes=self._kept.get(number, 0))
            for before, number in zip([_TOP, *chain], chain, strict=False)
        )

    def _named(self, before: int, number: int) -> str:
        value, kind = self._objects[number], type(self._objects[number]).__name__
        if number in self._tops:
            return self._tops[number]
        owner = self._objects.get(before)
        if owner is None or not any(child is value for child in self._edges.of([owner])):
            return kind
        return f"{fold(label(owner, value, self._edges.native(owner)))} ({kind})"

    def close(self) -> None:
        """Let go of everything visited."""
        for kept in (self._into, self._objects, self._values, self._tops):
            kept.clear()
        self._edges = Edges()


def own_memory(leaked: Iterable[Tensor]) -> dict[int, tuple[list[int], int]]:
    """Each piece of memory by its address: the ids of the leaked tensors on it, and its size in bytes.

    Memory that a tensor stands on which is none of them, such as a parameter, is left out: it stays anyway.
    """
    found: dict[int, tuple[list[int], int]] = {}
    ids = set()
    for tensor in leaked:
        ids.add(id(tensor))
        address, size = _memory(tensor)
        on_it, known = found.get(address, ([], 0))
        found[address] = [*on_it, id(tensor)], max(known, size)
    found.pop(0, None)
    for tensor in tensors_among(gc.get_objects()):
        if id(tensor) not in ids:
            found.pop(_memory(tensor)[0], None)
    return found


def _memory(tensor: Tensor) -> tuple[int, int]:
    """Address and size of a tensor's memory; zeros where it has none."""
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return 0, 0


def _referrers(heap: list[Any], ids: set[int]) -> list[Any]:
    """The objects of the heap that refer to one of some ids; in C, unlike `gc.get_referrers`, linear."""
    found: list[Any] = []
    if ids:
        for chunk in chunks(heap, _CHUNK):
            if not ids.isdisjoint(map(id, gc.get_referents(*chunk))):
                found += (one for one in chunk if not ids.isdisjoint(map(id, gc.get_referents(one))))
    return found


def _namespace(root: Root) -> Any:
    return vars(root.value) if root.kind is RootKind.MODULE else root.value


def _is_ours(value: Any) -> bool:
    if isinstance(value, FrameType):
        return True  # what a running frame holds is told by the roots
    return type(value).__module__.startswith((f"{_OWN}.leaks", f"{_OWN}.instruments"))
