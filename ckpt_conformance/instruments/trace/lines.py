"""Who holds what should be gone, as the lines of a finding's trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor

from ckpt_conformance.instruments.census import take_census
from ckpt_conformance.instruments.trace.explain import Held, trace_all
from ckpt_conformance.instruments.trace.fingerprint import normalized
from ckpt_conformance.instruments.trace.walk import Hop

_HOLDERS, _HOPS = 4, 24
"""So many holders are written out, and so many references of each; the rest are counted."""


def trace_lines(find: Callable[[], list[Any]]) -> tuple[str, ...]:
    """Say who holds some objects: a line for each holder, and below it one for each reference.

    Args:
        find: Finds the objects. It is called here, so that no frame of the caller's holds them by looking,
            and after a count: what a graph alone has gets its Python object by being counted.
    """
    take_census()
    survivors = find()
    held = trace_all(survivors)
    names = list(map(_named, survivors))
    survivors.clear()
    alike: dict[str, list[tuple[str, Held]]] = {}
    for name, one in zip(names, held, strict=True):
        alike.setdefault(normalized(one.text), []).append((name, one))
    largest = sorted(alike.values(), key=len, reverse=True)
    lines = [line for some in largest[:_HOLDERS] for line in _lines(some)]
    rest = sum(map(len, largest[_HOLDERS:]))
    return (*lines, *([f"and {rest} more, held in other ways"] if rest else []))


def _named(value: Any) -> str:
    if not isinstance(value, Tensor):
        return type(value).__qualname__.removeprefix("_")
    made_by = f" made by {type(value.grad_fn).__name__}" if value.grad_fn is not None else ""
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{made_by}"


def _lines(alike: list[tuple[str, Held]]) -> Iterator[str]:
    name, held = min(alike, key=lambda one: (len(one[1].text), one[1].text))
    more = len(alike) - 1
    yield f"{name}{f' and {more} more are' if more else ' is'} alive: {held.text}"
    if held.path is not None:
        yield from _hops(held.path.hops)
    elif held.cycle is not None:
        yield from _hops(held.cycle.hops)
        if held.cycle.tail:
            yield f"  which leads to it from its {held.cycle.entry}:"
            yield from _hops(held.cycle.tail)


def _hops(hops: Sequence[Hop]) -> Iterator[str]:
    for one in hops[:_HOPS]:
        yield f"  {'C++' if one.native else '   '} {one.label} ({one.type})"
    if len(hops) > _HOPS:
        yield f"      and {len(hops) - _HOPS} more references"
