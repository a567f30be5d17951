"""Verify a candidate in this process, without pytest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.expectations import check_all, settled
from ckpt_conformance.report.model import NONCONFORMING, Finding
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import requirements
from ckpt_conformance.suite.judge import judge
from ckpt_conformance.suite.selection import selected
from ckpt_conformance.suite.traced_lab import traced_lab


class NonconformityError(AssertionError):
    """A candidate does not conform; the message lists what failed."""


def check_checkpoint(
    candidate: Candidate,
    *,
    select: Iterable[str] = (),
    full: bool = False,
    lab: Lab | None = None,
    on_fail: Literal["raise"] | None = "raise",
    callback: Callable[[Finding], None] | None = None,
) -> list[Finding]:
    """Hold a candidate to the standard, one requirement after another, in this process.

    A candidate that crashes or hangs takes this process with it: `ckpt-conformance run` isolates.

    Args:
        candidate: What to verify.
        select: Families or requirement ids; all of them when empty.
        full: Whether to run the slow requirements of `--level full` too.
        lab: Where to run; the CPU when None.
        on_fail: `"raise"` to raise after the last requirement, None to leave it to the caller.
        callback: Called with each finding as it comes.

    Returns:
        The findings, in the order of the standard.

    Raises:
        NonconformityError: A requirement failed and `on_fail` is `"raise"`.
        SelectionError: `select` names nothing that exists.
        ExpectationsError: The candidate expects the failure of a requirement that does not exist.
    """
    standard = list(requirements())
    expected = candidate.expected_failures
    check_all(f"candidate {candidate.name!r}", expected, {made.id for made in standard})
    findings = []
    for requirement in selected(standard, select, full=full):
        findings.append(settled(judge(requirement, candidate, lab or traced_lab()), expected))
        if callback is not None:
            callback(findings[-1])
    failed = [finding for finding in findings if finding.verdict in NONCONFORMING]
    if failed and on_fail == "raise":
        raise NonconformityError("\n".join(f"{finding.requirement}: {finding.summary}" for finding in failed))
    return findings
