"""Which requirements a run is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckpt_conformance.report.explain import near_misses
from ckpt_conformance.standard.registry import FAMILIES, Requirement


class SelectionError(Exception):
    """A selection that matches nothing; the message is one line that says what to do."""


def selected(
    standard: Sequence[Requirement], wanted: Iterable[str], *, full: bool = False
) -> list[Requirement]:
    """The requirements that were asked for, in the order of the standard.

    Args:
        standard: Every requirement there is.
        wanted: Families or ids; all of them when empty.
        full: Whether those that run with `--level full` only are in; one asked for by its id always is.

    Raises:
        SelectionError: Something that was asked for matches nothing.
    """
    asked = list(wanted)
    for one in asked:
        if not any(one in {made.id, made.family} for made in standard):
            raise SelectionError(_nothing(one, standard))
    return [made for made in standard if _is_in(made, asked, full)]


def _is_in(made: Requirement, asked: Sequence[str], full: bool) -> bool:
    if made.id in asked:
        return True
    return (full or not made.full) and (not asked or made.family in asked)


def _nothing(one: str, standard: Sequence[Requirement]) -> str:
    near = near_misses(one, [*FAMILIES, *(made.id for made in standard)])
    hint = f"did you mean {', '.join(near)}?" if near else "`ckpt-conformance list requirements` shows all"
    return f"no family or requirement is called {one[:80]!r}; {hint}"
