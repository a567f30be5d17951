"""Two runs of one candidate: what fails now and did not, what no longer fails, what still does."""

from __future__ import annotations

from dataclasses import dataclass

from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.model import NONCONFORMING, Finding, ReportError, Run, Verdict
from ckpt_conformance.report.text import by_cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The failing requirements of two runs, each list in the order of the standard.

    Attributes:
        old: The run that is compared with.
        new: The run in question.
        appeared: NEW: findings of the new run that fail there alone.
        fixed: FIXED: findings of the new run that passed where the old one failed.
        same: SAME: findings of the new run that fail in both.
        unseen: Findings of the old run that failed, and that the new one neither fails nor passes: not run,
            refused, or expected by now.
    """

    old: Run
    new: Run
    appeared: tuple[Finding, ...]
    fixed: tuple[Finding, ...]
    same: tuple[Finding, ...]
    unseen: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """1 where something fails that did not before, else 0."""
        return 1 if self.appeared else 0


def compare(old: Run, new: Run) -> Comparison:
    """Compare two runs of one candidate, of two versions or from two branches.

    Raises:
        ReportError: They are about different candidates, styles or device types.
    """
    check_comparable(old, new.candidate.name, new.candidate.style, new.device)
    was, now = _failing(old), _failing(new)
    passed = {finding.requirement for finding in new.findings if finding.verdict is Verdict.PASSED}
    return Comparison(
        old=old,
        new=new,
        appeared=_pick(new, now - was),
        fixed=_pick(new, was & passed),
        same=_pick(new, now & was),
        unseen=_pick(old, was - now - passed),
    )


def check_comparable(old: Run, name: str, style: str, device: str) -> None:
    """Refuse to compare with a run that was about something else.

    Args:
        old: The run to compare with.
        name: The name of the new run's candidate.
        style: Its calling style.
        device: Where the new run's requirements ran.

    Raises:
        ReportError: They are about different candidates, styles or device types.
    """
    pairs = {
        "candidate": (old.candidate.name, name),
        "calling style": (old.candidate.style, style),
        "device": (old.device, device),
    }
    for what, (before, after) in pairs.items():
        if before != after:
            told = f"{one_line(before)} and {one_line(after)}"
            raise ReportError(f"the two reports differ in their {what} ({told}): not comparable")


def _failing(run: Run) -> set[str]:
    return {finding.requirement for finding in run.findings if finding.verdict in NONCONFORMING}


def _pick(run: Run, ids: set[str]) -> tuple[Finding, ...]:
    return tuple(by_cause(finding for finding in run.findings if finding.requirement in ids))


def render_comparison(comparison: Comparison) -> str:
    """The comparison as text: a line for each requirement, the totals last."""
    lines = [
        f"{label:<5}  {finding.requirement}: {one_line(finding.summary)}"
        for label, findings in sections(comparison)
        for finding in findings
    ]
    return "\n".join([*lines, totals(comparison)]) + "\n"


def sections(comparison: Comparison) -> list[tuple[str, tuple[Finding, ...]]]:
    """The label of each list of findings, and the list."""
    return [
        ("NEW", comparison.appeared),
        ("FIXED", comparison.fixed),
        ("SAME", comparison.same),
        ("?", comparison.unseen),
    ]


def totals(comparison: Comparison) -> str:
    """How many requirements each list has, and what was compared with; one line."""
    new, fixed, same, unseen = (len(findings) for _, findings in sections(comparison))
    told = f"{new} NEW, {fixed} FIXED, {same} SAME"
    if unseen:
        told += f", {unseen} ? (failed before; now not run, refused or expected)"
    return f"{told} against {_dated(comparison.old)}"


def _dated(run: Run) -> str:
    return one_line(f"{run.candidate.distribution or 'the run'} of {run.started}")
