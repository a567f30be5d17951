"""The registry: what a requirement is, and the ordered set of them all."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from ckpt_conformance.candidate import CAPABILITIES, Candidate, Style
from ckpt_conformance.standard.lab import Lab

SPEC_VERSIONS: Final = ("2026.12",)
"""Every published version of the standard, oldest first."""

FAMILIES: Final = (
    "state", "rng", "autocast", "arguments", "versions", "views", "recompute", "modules", "engine",
    "errors", "values", "nesting", "grouped", "retention", "memory", "training", "subclasses", "compile",
    "cuda", "distributed",
)  # fmt: skip
"""The families, ordered by cause: a value that is wrong because a mask differs is an rng finding first, and
what fails in one region already is no fault of nesting."""

Check: TypeAlias = Callable[[Candidate, Lab], None]
Need: TypeAlias = Callable[[Lab], str | None]
"""What is missing here for a requirement to be checked, in words; None where nothing is."""


class Level(StrEnum):
    """How binding a requirement is."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


MUST: Final = Level.MUST
"""A user would call the opposite a bug, and the reference meets it."""
SHOULD: Final = Level.SHOULD
"""Good implementations do it; a failure is advisory."""
MAY: Final = Level.MAY
"""A capability, which a candidate has or clearly refuses."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a candidate must, should or may do.

    Attributes:
        id: `family/what-must-hold`.
        level: MUST, SHOULD or MAY.
        since: The version of the standard that brought it.
        sources: Where it comes from: public reports such as `pytorch/pytorch#14253`, or documentation.
        check: Raises `Violation` where the requirement does not hold.
        capability: For MAY: what a candidate that refuses leaves out.
        styles: The calling styles it is about.
        devices: The device types it is about.
        slow: Why it takes more than a second, or None.
        full: Whether it runs only with `--level full`.
        needs: Says why it cannot be checked here, such as a package or a second GPU that is not there.
    """

    id: str
    level: Level
    since: str
    sources: tuple[str, ...]
    check: Check
    capability: str | None
    styles: frozenset[Style]
    devices: frozenset[str]
    slow: str | None
    full: bool
    needs: Need | None = None

    @property
    def family(self) -> str:
        """The part of the id before the slash."""
        return self.id.partition("/")[0]

    @property
    def sentence(self) -> str:
        """The sentence of the standard: the first paragraph of the check's docstring, as one line."""
        return " ".join(self._paragraphs()[0].split())

    @property
    def why(self) -> str:
        """Why it matters, and what goes wrong without it: the docstring's paragraphs up to `How:`."""
        return "\n\n".join(part for part in self._paragraphs()[1:] if not part.startswith(_HOW))

    @property
    def how(self) -> str:
        """How a passing implementation does it: the docstring's paragraph that starts with `How:`."""
        return "\n\n".join(
            part.removeprefix(_HOW).strip() for part in self._paragraphs() if part.startswith(_HOW)
        )

    def _paragraphs(self) -> list[str]:
        return (inspect.getdoc(self.check) or "").split("\n\n")


ALL_STYLES: Final = frozenset(Style)
FUNCTION_LIKE: Final = frozenset({Style.FUNCTION, Style.WRAPPER, Style.CONTEXT})
"""The styles in which the caller keeps the region's output."""
RECOMPUTING: Final = frozenset({Style.FUNCTION, Style.DISCARDING, Style.WRAPPER})
"""The styles that promise to recompute; a context may offload instead."""
DISCARDING: Final = frozenset({Style.DISCARDING})

CUDA: Final = frozenset({"cuda"})
"""The devices of requirements that are about CUDA alone."""

_HOW: Final = "How:"

_registry: dict[str, Requirement] = {}


def requirement(
    id_: str,
    level: Level,
    *,
    since: str,
    source: str | tuple[str, ...],
    capability: str | None = None,
    styles: frozenset[Style] = ALL_STYLES,
    devices: frozenset[str] = frozenset({"cpu", "cuda"}),
    slow: str | None = None,
    full: bool = False,
    needs: Need | None = None,
) -> Callable[[Check], Check]:
    """Enter a check into the standard; the check itself is returned unchanged.

    Raises:
        ValueError: The id is taken or of no known family, MAY has no capability (or another level has one),
            or the check has no docstring with a sentence and a reason.
    """

    def enter(check: Check) -> Check:
        sources = (source,) if isinstance(source, str) else source
        made = Requirement(id_, level, since, sources, check, capability, styles, devices, slow, full, needs)
        _refuse_malformed(made)
        _registry[id_] = made
        return check

    return enter


def _refuse_malformed(made: Requirement) -> None:
    if made.id in _registry:
        raise ValueError(f"requirement {made.id!r} is entered twice")
    if made.family not in FAMILIES:
        raise ValueError(f"requirement {made.id!r}: {made.family!r} is no family of the standard")
    if (made.level is Level.MAY) != (made.capability is not None):
        raise ValueError(f"requirement {made.id!r}: MAY and a capability go together")
    if made.capability is not None and made.capability not in CAPABILITIES:
        raise ValueError(f"requirement {made.id!r}: unknown capability {made.capability!r}")
    if not (made.sentence and made.why and made.how):
        raise ValueError(f"requirement {made.id!r}: the docstring needs a sentence, a reason and a `How:`")


def requirements() -> Iterator[Requirement]:
    """Every requirement of the standard, families in order of cause, within a family as written."""
    for family in FAMILIES:
        _load(family)
    order = {family: rank for rank, family in enumerate(FAMILIES)}
    yield from sorted(_registry.values(), key=lambda made: order[made.family])


def _load(family: str) -> None:
    """Import the module (or package) of a family; one without a module has no requirement yet."""
    name = f"{__package__}.{family}"
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
