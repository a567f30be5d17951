"""A run as text for a terminal or a CI log."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ckpt_conformance.candidate import Style
from ckpt_conformance.report.clean import harmless, one_line, shortened
from ckpt_conformance.report.conformance import denominator
from ckpt_conformance.report.diagnosis import Cause, by_family, causes
from ckpt_conformance.report.model import Finding, Run, Verdict
from ckpt_conformance.standard.registry import Requirement

WIDTH: Final = 100
_TOLD: Final = (Verdict.EXPECTED, Verdict.ADVISORY, Verdict.REFUSED)
"""The verdicts that get a line each although they do not make the run fail."""


def render_text(run: Run, standard: Sequence[Requirement]) -> str:
    """The whole run as text that ends in a newline.

    Order: what was verified, verdicts by family, the first cause and the others that explain several
    failures, each failure with its evidence, by cause, what was expected, advisory or refused, the
    denominator, the conformance. Nothing that comes from the candidate can act on the terminal or a runner.

    Args:
        run: The run, as recorded or read from a file.
        standard: Every requirement there is; it gives sentences and reasons.
    """
    known, found = {made.id: made for made in standard}, causes(run)
    blocks = [headline(run), "\n".join(_families(run))]
    if found:
        blocks.append("\n".join(_causes(run, found)))
    blocks += [
        "\n".join(_failure(finding, run, known.get(finding.requirement)))
        for cause in found
        for finding in cause.findings
    ]
    blocks += ["\n".join(lines) for lines in [list(_told(run))] if lines]
    return "\n\n".join([*blocks, verdict_lines(run, standard)]) + "\n"


def by_cause(findings: Iterable[Finding]) -> list[Finding]:
    """The findings with the families ordered by cause, and within a family as they came.

    A value that is wrong because a dropout mask differs is an rng finding first.
    """
    return sorted(findings, key=lambda finding: by_family(finding.requirement))


def headline(run: Run) -> str:
    """What was verified, against what, and on what."""
    who = run.candidate
    told = [f"{one_line(who.name)} ({who.style} style)"]
    told += [one_line(part) for part in (who.distribution, who.remark) if part]
    place = f"torch {run.torch}, Python {run.python}, {run.device}"
    return f"{', '.join(told)}\nstandard {run.standard}, ckpt-conformance {run.package}, {one_line(place)}"


def verdict_lines(run: Run, standard: Sequence[Requirement]) -> str:
    """The last lines of every rendering: the denominator and the conformance."""
    cut = ["interrupted: requirements are missing"] if run.interrupted else []
    took = f"conformance: {run.conformance} (in {run.seconds:.1f} s)"
    return "\n".join([*cut, denominator(run, standard), took])


def family_counts(run: Run) -> Mapping[str, Mapping[str, int]]:
    """Family to verdict to number, families by cause, verdicts in the order of `Verdict`."""
    families = dict.fromkeys(finding.family for finding in by_cause(run.findings))
    return {family: _counts(run, family) for family in families}


def _counts(run: Run, family: str) -> Mapping[str, int]:
    counted = Counter(finding.verdict for finding in run.findings if finding.family == family)
    return {str(verdict): counted[verdict] for verdict in Verdict if counted[verdict]}


def _families(run: Run) -> Iterator[str]:
    counts = family_counts(run)
    width = max((len(family) for family in counts), default=0)
    for family, verdicts in counts.items():
        yield f"{family:<{width}}  {', '.join(f'{number} {verdict}' for verdict, number in verdicts.items())}"


def _causes(run: Run, found: Sequence[Cause]) -> Iterator[str]:
    """The first cause, and every other one that explains more than one failure."""
    for number, cause in enumerate(found):
        told = cause.told(len(run.failures))
        if told or number == 0:
            named = cause.named
            label = "first cause" if number == 0 else "other cause"
            yield f"{label}: {named.requirement}: {one_line(named.summary)}"
        if told:
            yield from textwrap.wrap(told, WIDTH, initial_indent="  ", subsequent_indent="  ")


def _failure(finding: Finding, run: Run, requirement: Requirement | None) -> Iterator[str]:
    yield f"{finding.verdict.upper()} {finding.requirement} ({finding.level}): {one_line(finding.summary)}"
    if requirement is not None:
        yield from _labelled("the standard", requirement.sentence)
    yield from _labelled("expected", evidence(finding.expected))
    yield from _labelled("found", evidence(finding.found))
    yield from _labelled("trace", evidence("\n".join(finding.trace), 4000))
    if requirement is not None:
        yield from _labelled("why", _prose(requirement.why))
        yield from _labelled("how", _prose(requirement.how))
    yield from _labelled("rerun", rerun(run, finding))


def evidence(text: str, limit: int = 1200) -> str:
    """What a candidate said or did, harmless and short."""
    return harmless(shortened(text, limit))


def rerun(run: Run, finding: Finding) -> str:
    """The command that runs one requirement again."""
    target = shlex.quote(one_line(run.candidate.target))
    device = "" if run.device == "cpu" else f" --device {shlex.quote(one_line(run.device))}"
    # that an object of the user's is called in another style may be known from --style alone
    told = ":" in run.candidate.target and run.candidate.style != Style.FUNCTION
    style = f" --style {shlex.quote(one_line(run.candidate.style))}" if told else ""
    return f"ckpt-conformance run {target} --select {finding.requirement}{style}{device}"


def _prose(text: str) -> str:
    """Each paragraph on a line of its own, without the breaks of the docstring that it comes from."""
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _labelled(label: str, text: str) -> Iterator[str]:
    """The text in a column of its own behind its label, so that no line of it begins a line of the log."""
    margin = f"  {label:<12}  "
    for line in text.splitlines():
        whole = [line] if label in {"rerun", "trace"} else textwrap.wrap(line, WIDTH - len(margin)) or [""]
        for part in whole:
            yield f"{margin}{part}".rstrip()
            margin = " " * len(margin)


def _told(run: Run) -> Iterator[str]:
    for verdict in _TOLD:
        for finding in by_cause(run.findings):
            if finding.verdict is verdict:
                yield f"{verdict}: {finding.requirement}: {one_line(finding.summary)}"
