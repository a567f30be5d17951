"""Why a tensor is alive, in one record: a path from a root, a cycle, or that only C++ knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ckpt_conformance.instruments.trace.cycles import Cycle, Unrooted
from ckpt_conformance.instruments.trace.labels import THREAD_LOCAL
from ckpt_conformance.instruments.trace.roots import RootKind
from ckpt_conformance.instruments.trace.walk import Path, Walk, undisturbed


@dataclass(frozen=True, slots=True)
class Held:
    """Why one object is alive.

    Attributes:
        path: The shortest path from a root; None where none leads to it.
        cycle: The cycle that it is in or hangs from, where no root leads to it.
        owners: C++ owners of a tensor, by its use count; 0 for other objects.
        explained: How many native references to it the walk saw.
    """

    path: Path | None
    cycle: Cycle | None
    owners: int = 0
    explained: int = 0

    @property
    def root(self) -> RootKind:
        """What it all hangs from."""
        if self.path is None:
            return RootKind.NATIVE
        through = any(one.label == THREAD_LOCAL for one in self.path.hops)
        return RootKind.THREAD_LOCAL if through else self.path.root.kind

    @property
    def text(self) -> str:
        """One line for a person."""
        if self.path is not None:
            return f"{self.root} {self.path.root.name}: {self.path.text}"
        if self.cycle is not None:
            return f"no root, but a cycle: {self.cycle.text}"
        return (
            "only native references: held by C++ owner not reachable "
            f"(use_count {self.owners}, explained {self.explained})"
        )


def trace(tensor: Any) -> Held:
    """Say who keeps a tensor, or any other object, alive.

    The caller's own reference counts as one: a local variable of a running function is a root.
    """
    return trace_all([tensor])[0]


def trace_all(values: Sequence[Any]) -> list[Held]:
    """The same for several objects at the cost of one walk; the sequence itself is no holder."""
    ids = [id(value) for value in values]
    uses = [value._use_count() - 1 if isinstance(value, Tensor) else 0 for value in values]
    walk = Walk(leave_out=[values])
    with undisturbed():
        try:
            reached = walk.run(ids)
            unrooted = None if len(reached) == len(set(ids)) else Unrooted(walk, leave_out=[id(values)])
            return [_held(walk, unrooted, number, owners) for number, owners in zip(ids, uses, strict=True)]
        finally:
            walk.close()


def _held(walk: Walk, unrooted: Unrooted | None, number: int, owners: int) -> Held:
    path = walk.path_to(number)
    cycle = unrooted.cycle_behind(number) if path is None and unrooted is not None else None
    return Held(path, cycle, owners, walk.edges.owners(number))
