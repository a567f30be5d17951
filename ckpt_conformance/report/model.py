"""The report as data: findings, verdicts, counts, and the conformance they add up to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
