"""What holds an object that no root reaches: the cycle it is in or hangs from, if there is one."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from ckpt_conformance.instruments.trace.edges import Edges
from ckpt_conformance.instruments.trace.labels import fold
from ckpt_conformance.instruments.trace.roots import is_own
from ckpt_conformance.instruments.trace.walk import Hop, Walk, hop

_MANY = 100
"""In a larger tangle not every object's shortest cycle is compared."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """References that lead from an object back to it.

    Attributes:
        start: The type of the object that it is told from.
        hops: The references, the last of which leads back.
        text: The whole, as a person would write it.
        entry: The type of the cycle's object from which a way leads to the object in question.
        tail: That way's references; none where the object is in the cycle itself.
    """

    start: str
    hops: tuple[Hop, ...]
    text: str
    entry: str = ""
    tail: tuple[Hop, ...] = ()

    @property
    def native(self) -> bool:
        """Whether a reference of it is one that the collector does not see."""
        return any(one.native for one in self.hops)


class Unrooted:
    """The objects that a finished walk did not reach, and who refers to whom among them."""

    def __init__(self, walk: Walk, *, leave_out: Iterable[int] = ()) -> None:
        objects = gc.get_objects()
        skipped = walk.visited | walk.edges.own() | set(leave_out) | {id(objects)}
        self._edges = walk.edges
        self._objects: dict[int, Any] = {}
        self._into: dict[int, list[int]] = {}
        waiting = [value for value in objects if id(value) not in skipped and not _is_ours(value)]
        objects.clear()
        self._link(waiting, skipped)

    def _link(self, waiting: list[Any], skipped: set[int]) -> None:
        while waiting:
            self._objects.update(zip(map(id, waiting), waiting, strict=True))
            found: list[Any] = []
            for value in waiting:
                for child in self._edges.of([value]):
                    self._into.setdefault(id(child), []).append(id(value))
                    if id(child) not in skipped and id(child) not in self._objects:
                        found.append(child)
            waiting = list({id(value): value for value in found}.values())

    def cycle_behind(self, target: int) -> Cycle | None:
        """The cycle that keeps an object alive: the one it is in, else the nearest that leads to it."""
        toward = self._ancestors(target)
        knots = self._knots(set(toward))
        for number in toward:
            if number in knots:
                entry = type(self._objects[number]).__name__
                return replace(self._cycle_in(knots[number]), entry=entry, tail=self._tail(number, toward))
        return None

    def _tail(self, number: int, toward: dict[int, int | None]) -> tuple[Hop, ...]:
        hops: list[Hop] = []
        after = toward[number]
        while after is not None:
            hops.append(hop(self._edges, self._objects[number], self._objects[after]))
            number, after = after, toward[after]
        return tuple(hops)

    def close(self) -> None:
        """Let go of everything seen: among it may be what refers to this."""
        self._objects.clear()
        self._into.clear()
        self._edges = Edges()

    def _ancestors(self, target: int) -> dict[int, int | None]:
        """The object and whoever leads to it, the nearest first; each with what it refers to on the way."""
        toward: dict[int, int | None] = {target: None}
        waiting = deque([target])
        while waiting:
            after = waiting.popleft()
            for before in self._into.get(after, ()):
                if before not in toward:
                    toward[before] = after
                    waiting.append(before)
        return toward

    def _knots(self, among: set[int]) -> dict[int, set[int]]:
        """For each object that is in a cycle, the objects that it is in cycles with."""
        import networkx as nx  # only where there is something to untangle

        graph = nx.DiGraph()
        graph.add_edges_from(
            (before, after) for after in among for before in self._into.get(after, ()) if before in among
        )
        found: dict[int, set[int]] = {}
        for knot in nx.strongly_connected_components(graph):
            if len(knot) > 1 or any(graph.has_edge(number, number) for number in knot):
                found |= dict.fromkeys(knot, knot)
        return found

    def _cycle_in(self, knot: set[int]) -> Cycle:
        """The shortest cycle of a tangle; of several, the first in the order of their texts."""
        starts = sorted(knot, key=lambda number: type(self._objects[number]).__name__)[:_MANY]
        rounds = [self._round(start, knot) for start in starts]
        shortest = min(map(len, rounds))
        return min(
            (self._written(one) for one in rounds if len(one) == shortest),
            key=lambda cycle: (cycle.hops[0].native, cycle.text),
        )

    def _round(self, start: int, knot: set[int]) -> list[int]:
        """The shortest way from an object back to itself, as ids; the object first, and not again."""
        after: dict[int, int] = {}
        waiting = deque([start])
        while waiting:
            number = waiting.popleft()
            for before in self._into.get(number, ()):
                if before == start:
                    return _unrolled(start, number, after)
                if before in knot and before not in after:
                    after[before] = number
                    waiting.append(before)
        raise AssertionError("an object of a knot is in a cycle")

    def _written(self, around: list[int]) -> Cycle:
        values = [self._objects[number] for number in around]
        hops = tuple(
            hop(self._edges, parent, child)
            for parent, child in zip(values, [*values[1:], values[0]], strict=True)
        )
        start = type(values[0]).__name__
        return Cycle(start, hops, fold(f"<{start}>{''.join(one.label for one in hops)}"))


def _unrolled(start: int, second: int, after: dict[int, int]) -> list[int]:
    around = [start]
    while second != start:
        around.append(second)
        second = after[second]
    return around


def _is_ours(value: Any) -> bool:
    if isinstance(value, FrameType):
        # an ended frame that still names itself is a cycle too
        return is_own(value)
    return type(value).__module__.startswith("ckpt_conformance.instruments.trace")
