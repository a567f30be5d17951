"""Follow a written path again, to the objects that it names: for looking at them, and for cutting it."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from ckpt_conformance.instruments.census import reachable_nodes, tensors_among
from ckpt_conformance.instruments.names import type_name
from ckpt_conformance.instruments.trace.cycles import Cycle
from ckpt_conformance.instruments.trace.edges import Edges
from ckpt_conformance.instruments.trace.explain import Held
from ckpt_conformance.instruments.trace.roots import roots
from ckpt_conformance.instruments.trace.walk import Hop, Path, hop

_MOST_STARTS = 200


def hops_of(held: Held) -> tuple[Hop, ...]:
    """The references of a path or, where there is none, of the cycle."""
    where = held.path or held.cycle
    return where.hops if where is not None else ()


def objects_of(held: Held) -> list[Any]:
    """The objects along a path or cycle, its beginning first; empty where it is there no more.

    Whoever calls this keeps them alive by it, and lets go of them soon.
    """
    return next(all_objects_of(held), [])


def all_objects_of(held: Held) -> Iterator[list[Any]]:
    """The same for each beginning from which the path or cycle leads on: a loop leaves many like cycles."""
    edges = Edges()
    hops = hops_of(held)
    for start in _starts(held):
        found = _follow(start, hops, edges)
        if len(found) == len(hops) + 1 and (held.path is not None or found[-1] is start):
            yield found


def _starts(held: Held) -> list[Any]:
    if held.path is not None:
        return _at_root(held.path)
    return _in_cycle(held.cycle) if held.cycle is not None else []


def _at_root(path: Path) -> list[Any]:
    wanted = path.root.kind, path.root.name
    return [root.value for root in roots() if (root.kind, root.name) == wanted]


def _in_cycle(cycle: Cycle) -> list[Any]:
    objects = gc.get_objects()
    alike = [value for value in objects if type_name(value) == cycle.start]
    if not alike:
        nodes = reachable_nodes(tensors_among(objects))
        alike = [node for node in nodes if type_name(node) == cycle.start]
    return alike[:_MOST_STARTS]


def _follow(start: Any, hops: Sequence[Hop], edges: Edges) -> list[Any]:
    found = [start]
    for one in hops:
        child = _child(found[-1], one, edges)
        if child is None:
            break
        found.append(child)
    return found


def _child(parent: Any, wanted: Hop, edges: Edges) -> Any:
    if isinstance(parent, (list, tuple, deque)) and wanted.label.startswith("["):
        return next(islice(parent, int(wanted.label[1:-1]), None), None)
    # writing a path down may have moved an instance's attributes into a dictionary
    attributes = vars(parent).values() if type(getattr(parent, "__dict__", None)) is dict else ()
    for child in (*edges.of([parent]), *attributes):
        if type_name(child) == wanted.type and hop(edges, parent, child).label == wanted.label:
            return child
    return None
