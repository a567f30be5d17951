"""Python types that grow, counted by objgraph: the side of a leak that the collector sees."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from ckpt_conformance.instruments.names import type_name

_OWN = ("ckpt_conformance.leaks", "ckpt_conformance.instruments")
_NOT_OWNED = (type, ModuleType, FunctionType, BuiltinFunctionType)
"""What a record refers to and does not consist of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeGrowth:
    """A Python type that there are more objects of than before.

    Attributes:
        name: Its name, without its module.
        more: How many more objects of it there are.
        per_step: The same for one step, on average.
    """

    name: str
    more: int
    per_step: float


def count_types(own: Iterable[object] = ()) -> dict[str, int]:
    """How many objects of each type the collector lists, by the type's name; nothing is collected first.

    Source: `objgraph.typestats`. The first call imports objgraph, which is not needed where nothing grows.

    Args:
        own: Instruments, which do not count: neither they nor what they consist of, nor any object of the
            instruments' classes.
    """
    from objgraph import typestats

    ours = _parts(own)
    found: dict[str, int] = typestats(filter=lambda one: id(one) not in ours and _counts(one))
    return found


def grown_types(
    before: Mapping[str, int], after: Mapping[str, int], steps: int, most: int = 10
) -> tuple[TypeGrowth, ...]:
    """The types that there are more objects of, those that grew most first, equal ones by name.

    Args:
        before: Counts by name, from `count_types`.
        after: The same, later.
        steps: How many steps lie between them.
        most: So many types at most.

    Raises:
        ValueError: No step lies between them.
    """
    if steps < 1:
        raise ValueError(f"{steps} steps between two counts: at least 1")
    more = {name: number - before.get(name, 0) for name, number in after.items()}
    grown = sorted((-number, name) for name, number in more.items() if number > 0)
    return tuple(TypeGrowth(name=name, more=-less, per_step=-less / steps) for less, name in grown[:most])


def _counts(one: object) -> bool:
    """Whether an object is somebody else's, and of a class whose name objgraph can read."""
    try:
        return type(one).__name__ == type_name(one) and not type(one).__module__.startswith(_OWN)
    except Exception:  # noqa: BLE001 - a metaclass may do anything when asked for a name
        return False


def _parts(own: Iterable[object]) -> set[int]:
    """The addresses of some objects and of all that they refer to; weak references lead nowhere."""
    found: set[int] = set()
    waiting: list[Any] = list(own)
    while waiting:
        one = waiting.pop()
        if id(one) not in found and not issubclass(type(one), _NOT_OWNED):
            found.add(id(one))
            waiting += gc.get_referents(one)
    return found
