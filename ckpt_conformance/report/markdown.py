"""A run, and a comparison of two, as Markdown: a GitHub step summary or a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.compare import Comparison, sections, totals
from ckpt_conformance.report.conformance import denominator
from ckpt_conformance.report.diagnosis import Cause, causes
from ckpt_conformance.report.legend import SYMBOLS
from ckpt_conformance.report.model import Finding, Run, Verdict
from ckpt_conformance.report.text import evidence, family_counts, headline, rerun
from ckpt_conformance.standard.registry import Requirement

MOST_FAILURES: Final = 50
"""GitHub takes 1 MiB a summary; the rest is in the report."""


def render_markdown(run: Run, standard: Sequence[Requirement]) -> str:
    """The run as Markdown: conformance, denominator, verdicts by family, each failure folded.

    Args:
        run: The run.
        standard: Every requirement there is; it gives sentences and reasons.
    """
    known = {made.id: made for made in standard}
    found = causes(run)
    failures = [finding for cause in found for finding in cause.findings]
    parts = [
        f"## {escaped(run.candidate.name)}: conformance {run.conformance}",
        "<br>".join(escaped(line) for line in [*headline(run).split("\n"), denominator(run, standard)]),
    ]
    parts += ["**Interrupted: requirements are missing.**"] if run.interrupted else []
    parts.append("\n".join(_table(run)))
    parts += [_cause(cause, len(failures), number == 0) for number, cause in enumerate(found)]
    parts += [_folded(finding, run, known.get(finding.requirement)) for finding in failures[:MOST_FAILURES]]
    if len(failures) > MOST_FAILURES:
        parts.append(f"{len(failures) - MOST_FAILURES} more failures are in the report.")
    return "\n\n".join(filter(None, parts)) + "\n"


def escaped(text: str) -> str:
    """Text as one line of Markdown that shows it as it is: what might mean something becomes an entity."""
    return re.sub(r"[^\w\s.,;()/-]|_", lambda found: f"&#{ord(found[0])};", one_line(text))


def _table(run: Run) -> Iterator[str]:
    seen = [verdict for verdict in Verdict if verdict in run.counts]
    yield f"| family | {' | '.join(f'{SYMBOLS[verdict]} {verdict}' for verdict in seen)} |"
    yield f"| --- |{' ---: |' * len(seen)}"
    for family, counts in family_counts(run).items():
        yield f"| {escaped(family)} | {' | '.join(str(counts.get(verdict, '')) for verdict in seen)} |"


def _cause(cause: Cause, failures: int, first: bool) -> str:
    """The first cause, and every other one that explains more than one failure; else nothing."""
    told = cause.told(failures)
    if not (first or told):
        return ""
    head = f"{'First' if first else 'Other'} cause: {_titled(cause.named)}"
    return f"{head}<br>{escaped(told)}" if told else head


def _titled(finding: Finding) -> str:
    return f"<code>{escaped(finding.requirement)}</code>: {escaped(finding.summary)}"


def _folded(finding: Finding, run: Run, requirement: Requirement | None) -> str:
    title = f"{SYMBOLS[finding.verdict]} {finding.verdict} {_titled(finding)}"
    told = [f"expected: {finding.expected}", f"found: {finding.found}", *finding.trace]
    parts = [f"<details><summary>{title}</summary>"]
    parts += [escaped(requirement.sentence), escaped(requirement.why)] if requirement is not None else []
    parts += [fenced(evidence("\n".join(told), 4000)), fenced(rerun(run, finding)), "</details>"]
    return "\n\n".join(parts)


def fenced(text: str) -> str:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def render_comparison_markdown(comparison: Comparison) -> str:
    """The comparison as a Markdown table, the totals first."""
    lines = [
        f"| {label} | <code>{escaped(finding.requirement)}</code> | {escaped(finding.summary)} |"
        for label, findings in sections(comparison)
        for finding in findings
    ]
    head = [f"## {escaped(comparison.new.candidate.name)}: {escaped(totals(comparison))}"]
    table = ["| | requirement | what is wrong |\n| --- | --- | --- |", *lines] if lines else []
    return "\n\n".join([*head, *(["\n".join(table)] if table else [])]) + "\n"
