"""The leak report as data; renderers turn it into text, HTML and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

from ckpt_conformance.instruments.growth import Growth, Trend
from ckpt_conformance.instruments.types import TypeGrowth
from ckpt_conformance.leaks.facts import (
    Birth,
    Column,
    Remedy,
    Retained,
    TensorFacts,
    birth_of,
    column_of,
    facts_of,
)

SCHEMA: Final = 1
"""The number of the format; a change that old readers cannot take raises it."""


class Kind(StrEnum):
    """How memory is kept, and so what would free it."""

    HELD = "held"
    PYTHON_CYCLE = "Python cycle"
    NATIVE_CYCLE = "native cycle"
    GRAD_KEPT = ".grad of a recomputed leaf kept"
    LATE = "late"
    NATIVE_OWNER = "held by a C++ owner that cannot be reached"
    NO_OBJECT = "bytes without an object"


MEANING: Final[Mapping[Kind, str]] = {
    Kind.HELD: "a reference leads to it; drop that reference",
    Kind.PYTHON_CYCLE: "freed only when the collector runs; break the cycle",
    Kind.NATIVE_CYCLE: "a cycle through C++ that no collector frees; break the cycle",
    Kind.GRAD_KEPT: "set the leaf's .grad to None once it is collected",
    Kind.LATE: "a step's graph is freed only in the next one, and adds to its peak; let go of it sooner",
    Kind.NATIVE_OWNER: "alive with no path from a root and no cycle in sight",
    Kind.NO_OBJECT: "the level grows, and no tensor that these steps made stands for it; record what the"
    " allocator does to see who asks for it",
}


class Status(StrEnum):
    """How a leak compares with the baseline."""

    NEW = "NEW"
    KNOWN = "KNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One reference of a trace.

    Attributes:
        label: How it is written after what came before it.
        type: The type of the object it leads to.
        native: Whether only C++ has it, out of the collector's sight.
        suspect: Whether dropping it would end the leak: it belongs to the user's own objects.
        verdict: Whether the object should still be there, by the phase of the training; empty where that
            cannot be told.
    """

    label: str
    type: str
    native: bool
    suspect: bool = False
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """All objects that one holder keeps.

    Attributes:
        kind: How they are kept.
        fingerprint: The same in every run, for the same cause.
        root: What the path begins at, such as `module`; `only native references` where there is none.
        root_name: Its name.
        holder: The part of the path that is the user's, or the cycle, as a person would write it.
        trace: The whole path, likewise.
        steps: The references of the path, in order.
        objects: How many tensors.
        bytes: On how much memory.
        born: The steps in which they were made, counted from 1.
        example: Shape, type and device of one of them.
        status: Whether the baseline knows it.
        reason: What the baseline says about it.
        facts: Of one of them; None where there is no tensor.
        birth: Where one of them was made; None where it was not recorded.
        retained: The objects that alone keep it, from the outermost, and how much each of them keeps.
        remedies: What was tried in a child process, and what that freed.
    """

    kind: Kind
    fingerprint: str
    root: str
    root_name: str
    holder: str
    trace: str
    steps: tuple[Step, ...] = ()
    objects: int = 0
    bytes: int = 0
    born: tuple[int, ...] = ()
    example: str = ""
    status: Status = Status.NEW
    reason: str = ""
    facts: TensorFacts | None = None
    birth: Birth | None = None
    retained: tuple[Retained, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    def known(self, reason: str) -> Leak:
        """The leak as one that the baseline knows."""
        return replace(self, status=Status.KNOWN, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakReport:
    """What a guard saw.

    Attributes:
        steps: Steps watched, warm-up included.
        warmup: How many of them were warm-up.
        device: The device counted, or `all`.
        growth: Each quantity's series and verdict.
        types: The Python types that grew most, as objgraph counts them; empty where nothing leaks, or where
            fewer than two steps followed the one in which growth was first seen.
        leaks: The leaks, the largest first.
        gone: Fingerprints that the baseline knows and that were not seen.
        notes: What a reader should know: what was not seen, series too short to tell.
        seconds: What the guard itself cost.
        command: What runs the steps again, as far as that can be known.
        columns: The same steps in other variants, where the guard was given some.
        blind: What the guard cannot see.
        about: The versions of torch, Python and this package.
    """

    steps: int
    warmup: int
    device: str
    growth: Mapping[str, Growth]
    types: tuple[TypeGrowth, ...] = ()
    leaks: tuple[Leak, ...] = ()
    gone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    command: str = ""
    columns: tuple[Column, ...] = ()
    blind: tuple[str, ...] = ()
    about: str = ""

    @property
    def new(self) -> tuple[Leak, ...]:
        """The leaks that the baseline does not know; what is late is no leak, as it does not grow."""
        return tuple(leak for leak in self.leaks if leak.status is Status.NEW and leak.kind is not Kind.LATE)

    @property
    def late(self) -> tuple[Leak, ...]:
        """What each step passes on to the next one, which frees it."""
        return tuple(leak for leak in self.leaks if leak.kind is Kind.LATE)

    @property
    def per_step(self) -> int:
        """Bytes that each step adds, rounded; 0 where bytes do not grow."""
        return round(max((self.growth[name].per_step for name in _BYTES if name in self.growth), default=0))

    def to_data(self) -> dict[str, Any]:
        """The report as plain data, as the JSON file has it."""
        growth = {name: _plain(asdict(series)) for name, series in self.growth.items()}
        rest: dict[str, Any] = _plain(asdict(replace(self, growth={})))
        return {"schema": SCHEMA} | rest | {"growth": growth}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> LeakReport:
        """The report that plain data describes."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        known["growth"] = {name: _growth_of(series) for name, series in data["growth"].items()}
        known["leaks"] = tuple(_leak_of(leak) for leak in data["leaks"])
        known |= {name: tuple(data.get(name, ())) for name in ("gone", "notes", "blind")}
        known["types"] = tuple(TypeGrowth(**one) for one in data.get("types", ()))
        known["columns"] = tuple(map(column_of, data.get("columns", ())))
        return cls(**known)


_BYTES = ("bytes", "allocated")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return str(value) if isinstance(value, StrEnum) else value


def _growth_of(data: Mapping[str, Any]) -> Growth:
    return Growth(**{**data, "trend": Trend(data["trend"]), "levels": tuple(data["levels"])})


def _leak_of(data: Mapping[str, Any]) -> Leak:
    facts, birth = data.get("facts"), data.get("birth")
    parts = {
        "steps": tuple(Step(**step) for step in data["steps"]),
        "born": tuple(data["born"]),
        "facts": facts_of(facts) if facts else None,
        "birth": birth_of(birth) if birth else None,
        "retained": tuple(Retained(**one) for one in data.get("retained", ())),
        "remedies": tuple(Remedy(**one) for one in data.get("remedies", ())),
    }
    return Leak(**{**data, **parts, "kind": Kind(data["kind"]), "status": Status(data["status"])})
