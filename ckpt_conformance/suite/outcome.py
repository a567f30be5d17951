"""What a finding means to pytest, and how it travels from a worker to the process that reports."""

from __future__ import annotations

from typing import Any, Final

import pytest

from ckpt_conformance.report.clean import harmless, shortened
from ckpt_conformance.report.model import NONCONFORMING, Finding, Verdict

FINDING: Final = pytest.StashKey[Finding]()
"""Where an item of the suite keeps what it found."""

_AS_XFAIL: Final = frozenset({Verdict.EXPECTED, Verdict.ADVISORY})
_AS_SKIP: Final = frozenset({Verdict.REFUSED, Verdict.NOT_APPLICABLE})


def show(finding: Finding) -> None:
    """End the test as the finding asks: failed, xfailed (expected, advisory), skipped or passed."""
    __tracebackhide__ = True
    said = harmless(shortened(f"{finding.verdict}: {finding.summary}", 1000))
    if finding.verdict in NONCONFORMING:
        pytest.fail(_evidence(finding), pytrace=False)
    if finding.verdict in _AS_XFAIL:
        pytest.xfail(said)
    if finding.verdict in _AS_SKIP:
        pytest.skip(said)


def _evidence(finding: Finding) -> str:
    parts = [f"{finding.requirement} {finding.verdict}: {finding.summary}"]
    parts += [
        f"{label}: {text}"
        for label, text in (("expected", finding.expected), ("found", finding.found))
        if text
    ]
    return harmless(shortened("\n".join([*parts, *finding.trace]), 8000))


def to_plain(finding: Finding) -> dict[str, Any]:
    """The finding as values that the channel between two pytest processes can carry."""
    plain = {
        name: getattr(finding, name) for name in ("requirement", "summary", "expected", "found", "seconds")
    }
    return plain | {
        "level": str(finding.level),
        "verdict": str(finding.verdict),
        "trace": list(finding.trace),
    }


def from_plain(plain: dict[str, Any]) -> Finding:
    """The finding that `to_plain` took apart."""
    return Finding(**plain | {"verdict": Verdict(plain["verdict"]), "trace": tuple(plain["trace"])})
