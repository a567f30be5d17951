"""The matrix as data: candidates, requirements, and what each came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ckpt_conformance.matrix.causes import cause_of
from ckpt_conformance.matrix.run import Row
from ckpt_conformance.report.conformance import denominator
from ckpt_conformance.report.model import NONCONFORMING, Finding, Run, Verdict
from ckpt_conformance.standard.registry import FAMILIES, Requirement

SCHEMA: Final = 1
"""The number of the JSON's format."""


@dataclass(frozen=True)
class Matrix:
    """All runs of one matrix.

    Attributes:
        rows: What became of each candidate.
        standard: Every requirement there is.
        command: The command line that made it.
        started: When it began, ISO 8601.
        seconds: Wall time of the whole.
    """

    rows: Sequence[Row]
    standard: Sequence[Requirement]
    command: str
    started: str
    seconds: float

    @cached_property
    def runs(self) -> list[Run]:
        """The records of the candidates that could be run."""
        return [row.run for row in self.rows if row.run is not None]

    @cached_property
    def found(self) -> Mapping[str, Mapping[str, Finding]]:
        """Candidate to requirement to finding."""
        return {
            row.name: {finding.requirement: finding for finding in row.run.findings}
            for row in self.rows
            if row.run is not None
        }

    @cached_property
    def families(self) -> list[str]:
        """The families that have requirements, in order of cause."""
        there = {made.family for made in self.standard}
        return [family for family in FAMILIES if family in there]

    @property
    def devices(self) -> list[str]:
        """The devices that the runs were on."""
        return sorted({run.device for run in self.runs})

    def rollup(self, name: str, family: str) -> Rollup:
        """What one family came to for one candidate."""
        findings = [found for found in self.found[name].values() if found.family == family]
        applied = [found for found in findings if found.verdict is not Verdict.NOT_APPLICABLE]
        return Rollup(
            passed=sum(found.verdict is Verdict.PASSED for found in applied),
            failed=sum(found.verdict in NONCONFORMING for found in applied),
            applicable=len(applied),
        )

    def denominator(self, run: Run) -> str:
        """How many requirements the standard has, and how many got each verdict."""
        return denominator(run, self.standard)

    def to_data(self) -> dict[str, Any]:
        """The matrix as plain data, as `matrix.json` has it."""
        return {
            "schema": SCHEMA,
            "command": self.command,
            "started": self.started,
            "seconds": round(self.seconds, 1),
            "requirements": [{"id": made.id, "level": str(made.level)} for made in self.standard],
            "candidates": [_row_data(row) for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class Rollup:
    """What one family came to for one candidate.

    Attributes:
        passed: How many requirements passed.
        failed: How many failed, crashed or hung.
        applicable: How many are about this candidate.
    """

    passed: int
    failed: int
    applicable: int

    @property
    def tone(self) -> str:
        """How it is coloured: by the worst that happened."""
        if not self.applicable:
            return "none"
        return "bad" if self.failed else "good" if self.passed == self.applicable else "mixed"


def _row_data(row: Row) -> dict[str, Any]:
    data: dict[str, Any] = {"name": row.name, "problem": row.problem, "seconds": round(row.seconds, 1)}
    if row.run is None:
        return data
    whole = row.run.to_data()
    kept = (
        "standard",
        "package",
        "torch",
        "python",
        "device",
        "conformance",
        "candidate",
        "counts",
        "started",
    )
    return (
        data
        | {name: whole[name] for name in kept}
        | {"findings": [_finding_data(row, f) for f in row.run.findings]}
    )


def _finding_data(row: Row, finding: Finding) -> dict[str, Any]:
    data = {"requirement": finding.requirement, "verdict": str(finding.verdict)}
    if finding.verdict in {Verdict.PASSED, Verdict.NOT_APPLICABLE}:
        return data
    cause = cause_of(row.name, finding)
    told = {"summary": finding.summary, "expected": finding.expected[:600], "found": finding.found[:600]}
    return data | told | ({"cause": cause.id} if cause else {})
