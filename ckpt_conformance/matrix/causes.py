"""What lies behind the failures of published implementations: many requirements fail by one cause.

The table is `causes.toml`: written by hand, since a cause is understood, not computed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any, Final

from ckpt_conformance.report.model import NONCONFORMING, Finding, Run

KINDS: Final = (
    "silently wrong gradients",
    "silently no gradient",
    "crash",
    "memory that stays",
    "other effects than the plain run",
    "refused or obscure error",
)
"""What a user would see, worst first."""


@dataclass(frozen=True, slots=True)
class Place:
    """Failures that a cause explains.

    Attributes:
        candidates: Patterns of candidates' names.
        requirements: Patterns of requirement ids.
        found: A regular expression that the evidence must match; empty for any.
    """

    candidates: tuple[str, ...]
    requirements: tuple[str, ...]
    found: str = ""

    def explains(self, candidate: str, finding: Finding) -> bool:
        """Whether this candidate's finding is one of them."""
        return (
            any(fnmatchcase(candidate, pattern) for pattern in self.candidates)
            and any(fnmatchcase(finding.requirement, pattern) for pattern in self.requirements)
            and (not self.found or re.search(self.found, f"{finding.summary}\n{finding.found}") is not None)
        )


@dataclass(frozen=True, slots=True)
class Cause:
    """Why some requirements fail for some candidates.

    Attributes:
        id: What anchors are called.
        title: One line.
        kind: One of `KINDS`.
        seen: What a user would see, and why it is so.
        documented: What the projects themselves say about it, with the place; empty where they say nothing.
        known: Public reports, such as `pytorch/pytorch#14253`; empty where a search found none.
        since: Since which version, where it was looked up.
        scripts: Files of `docs/findings` that show it with torch and the package alone.
        places: The failures that it explains.
    """

    id: str
    title: str
    kind: str
    seen: str
    documented: str = ""
    known: tuple[str, ...] = ()
    since: str = ""
    scripts: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()


def causes() -> list[Cause]:
    """Every cause, worst first, within a kind as written."""
    return sorted(_written(), key=lambda cause: KINDS.index(cause.kind))


@cache
def _written() -> tuple[Cause, ...]:
    text = files(__package__).joinpath("causes.toml").read_text(encoding="utf-8")
    return tuple(_cause(entry) for entry in tomllib.loads(text)["cause"])


def _cause(entry: Mapping[str, Any]) -> Cause:
    places = tuple(
        Place(tuple(where["candidates"]), tuple(where["requirements"]), where.get("found", ""))
        for where in entry["where"]
    )
    plain: dict[str, Any] = {
        name: " ".join(value.split()) for name, value in entry.items() if isinstance(value, str)
    }
    lists: dict[str, Any] = {name: tuple(entry.get(name, ())) for name in ("known", "scripts")}
    return Cause(**plain, **lists, places=places)


def cause_of(candidate: str, finding: Finding) -> Cause | None:
    """The cause of one failure: the first as written; None where nobody has looked into it."""
    if finding.verdict not in NONCONFORMING:
        return None
    return next(
        (cause for cause in _written() if any(place.explains(candidate, finding) for place in cause.places)),
        None,
    )


def by_cause(runs: Iterable[Run]) -> dict[Cause | None, list[tuple[str, Finding]]]:
    """Each cause with the failures that it explains, in the causes' order; under None what is unexplained."""
    grouped: dict[Cause | None, list[tuple[str, Finding]]] = {cause: [] for cause in causes()}
    grouped[None] = []
    for run in runs:
        for finding in run.failures:
            grouped[cause_of(run.candidate.target, finding)].append((run.candidate.target, finding))
    return {cause: found for cause, found in grouped.items() if found}
