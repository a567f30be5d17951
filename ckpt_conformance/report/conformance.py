"""What findings add up to, and the denominator that every run prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ckpt_conformance.report.model import NONCONFORMING, Conformance, Finding, Run, Verdict
from ckpt_conformance.standard.registry import Level, Requirement


def conformance(
    findings: Iterable[Finding], standard: Iterable[Requirement], *, version: str | None = None
) -> Conformance:
    """What the findings of one candidate add up to.

    Args:
        findings: One for each requirement that was run, or that is not applicable.
        standard: Every requirement there is, whether it was run or not.
        version: The version of the standard that the candidate pins: newer requirements do not count.

    Returns:
        `full` where every MUST that is applicable was run and passed and nothing failed, crashed or hung;
        `none` where no MUST passed; else `partial`. A MUST without a finding was not run.
    """
    seen = {finding.requirement: finding.verdict for finding in findings}
    held = (made for made in standard if version is None or made.since <= version)
    musts = {made.id for made in held if made.level is Level.MUST}
    passed = {id_ for id_ in musts if seen.get(id_) is Verdict.PASSED}
    if not passed:
        return Conformance.NONE
    left_out = {id_ for id_ in musts if seen.get(id_) is Verdict.NOT_APPLICABLE}
    if passed | left_out == musts and not NONCONFORMING & set(seen.values()):
        return Conformance.FULL
    return Conformance.PARTIAL


def denominator(run: Run, standard: Sequence[Requirement]) -> str:
    """How many requirements the standard has, and how many got each verdict; one line.

    A saved run may have requirements that this version of the standard no longer has: they count too.
    """
    total = len({made.id for made in standard} | {finding.requirement for finding in run.findings})
    parts = [f"{number} {verdict}" for verdict, number in run.counts.items()]
    if total > len(run.findings):
        parts.append(f"{total - len(run.findings)} not run")
    return f"the standard has {total} requirements: {', '.join(parts)}"
