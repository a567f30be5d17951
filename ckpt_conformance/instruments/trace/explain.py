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
    uses = [_owners(value) for value in values]
    walk = Walk(leave_out=[values])
    unrooted = None
    with undisturbed():
        try:
            reached = walk.run(ids)
            paths = walk.paths_to(reached)
            unrooted = Unrooted(walk, leave_out=[id(values)]) if len(paths) < len(set(ids)) else None
            return [
                Held(paths.get(number), _cycle(unrooted, paths, number), owners, walk.edges.owners(number))
                for number, owners in zip(ids, uses, strict=True)
            ]
        finally:
            walk.close()
            if unrooted is not None:
                unrooted.close()


def _cycle(unrooted: Unrooted | None, paths: dict[int, Path], number: int) -> Cycle | None:
    return unrooted.cycle_behind(number) if unrooted is not None and number not in paths else None


def _owners(value: Any) -> int:
    # the Python object is one of them; torch's own stubs lack the method
    count: Any = getattr(value, "_use_count", None)
    return int(count()) - 1 if isinstance(value, Tensor) else 0
