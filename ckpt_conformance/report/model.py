"""The report as data: findings, verdicts, and the run that they make up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Final

SCHEMA: Final = 1
"""The number of the report's format; a change that old readers cannot take raises it."""


class Verdict(StrEnum):
    """What one requirement came to for one candidate; see the design's table."""

    PASSED = "passed"
    FAILED = "failed"
    REFUSED = "refused"
    EXPECTED = "expected"
    ADVISORY = "advisory"
    NOT_APPLICABLE = "not applicable"
    CRASHED = "crashed"
    HUNG = "hung"


NONCONFORMING = frozenset({Verdict.FAILED, Verdict.CRASHED, Verdict.HUNG})
"""The verdicts that make a run end with exit code 1."""


class Conformance(StrEnum):
    """What a run's findings add up to."""

    FULL = "full"
    PARTIAL = "partial"
    NONE = "none"


class ReportError(Exception):
    """A report that cannot be read, written or compared; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one requirement yielded for one candidate: a verdict and its evidence.

    Attributes:
        requirement: Its id.
        level: MUST, SHOULD or MAY.
        verdict: The verdict.
        summary: One line.
        expected: What should have been seen; empty where it passed.
        found: What was seen.
        seconds: How long the check ran.
        trace: Who holds what should be gone, or the stack of a crash; one entry a line.
        script: A stand-alone script that reproduces the failure, or None.
    """

    requirement: str
    level: str
    verdict: Verdict
    summary: str
    expected: str = ""
    found: str = ""
    seconds: float = 0.0
    trace: tuple[str, ...] = ()
    script: str | None = None

    @property
    def family(self) -> str:
        """The part of the requirement's id before the slash."""
        return self.requirement.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateFacts:
    """What a report says about the candidate.

    Attributes:
        name: What the candidate calls itself.
        style: The calling style.
        target: What names it on the command line: a catalog name, or `pkg.module:attr`.
        capabilities: The capabilities it declares, sorted.
        distribution: The distribution it comes from with its version, such as `torch 2.13.0`; may be empty.
        remark: One line of its own, such as the backend in use; may be empty.
    """

    name: str
    style: str
    target: str
    capabilities: tuple[str, ...] = ()
    distribution: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All findings of one candidate on one machine: what `report.json` holds.

    Attributes:
        standard: The version of the standard that the candidate was held to.
        package: The version of this package.
        torch: The version of torch.
        python: The version of Python.
        device: The device that the requirements ran on, such as `cpu`.
        candidate: What was verified.
        conformance: What the findings add up to.
        findings: One for each requirement that was run or is not applicable, in the order of the standard.
        started: When the run began, ISO 8601 with the offset to UTC.
        seconds: Wall time of the whole run.
        interrupted: Whether it was cut short, so that requirements are missing.
    """

    standard: str
    package: str
    torch: str
    python: str
    device: str
    candidate: CandidateFacts
    conformance: Conformance
    findings: tuple[Finding, ...]
    started: str
    seconds: float
    interrupted: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many findings got each verdict that occurs, in the order of `Verdict`."""
        counted = Counter(finding.verdict for finding in self.findings)
        return {str(verdict): counted[verdict] for verdict in Verdict if counted[verdict]}

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that make the candidate not conform, in the order of the standard: by cause."""
        return tuple(finding for finding in self.findings if finding.verdict in NONCONFORMING)

    @property
    def exit_code(self) -> int:
        """What the process ends with: 0 where everything conforms or was expected, else 1."""
        return 1 if self.failures or self.interrupted else 0

    def to_data(self) -> dict[str, Any]:
        """The run as plain data, as `report.json` has it."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        plain["conformance"] = str(self.conformance)
        plain["candidate"] = asdict(self.candidate) | {"capabilities": list(self.candidate.capabilities)}
        plain["findings"] = [_finding_data(finding) for finding in self.findings]
        return {"schema": SCHEMA, **plain, "counts": self.counts}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Run:
        """The run that plain data describes; `report.validate.problem_of` found nothing wrong with it."""
        known = {field.name: data[field.name] for field in fields(cls)}
        known["conformance"] = Conformance(data["conformance"])
        facts = _known(CandidateFacts, data["candidate"])
        known["candidate"] = CandidateFacts(**facts | {"capabilities": tuple(facts["capabilities"])})
        known["findings"] = tuple(_finding_of(entry) for entry in data["findings"])
        return cls(**known)


def _finding_data(finding: Finding) -> dict[str, Any]:
    texts = {"level": str(finding.level), "verdict": str(finding.verdict)}
    return asdict(finding) | texts | {"trace": list(finding.trace)}


def _finding_of(data: Mapping[str, Any]) -> Finding:
    known = _known(Finding, data)
    return Finding(**known | {"verdict": Verdict(known["verdict"]), "trace": tuple(known["trace"])})


def _known(kind: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of the data that the record has a field for: a newer writer may add others."""
    return {field.name: data[field.name] for field in fields(kind) if field.name in data}
