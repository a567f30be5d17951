"""The matrix as one HTML page, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jinja2 import Template

from ckpt_conformance.catalog.left_out import LEFT_OUT
from ckpt_conformance.matrix.causes import cause_of
from ckpt_conformance.matrix.findings import render_findings
from ckpt_conformance.matrix.table import Matrix
from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.html import slug
from ckpt_conformance.report.legend import MEANINGS, SYMBOLS
from ckpt_conformance.report.model import NONCONFORMING, Verdict
from ckpt_conformance.report.storage import json_text, write_files
from ckpt_conformance.report.template import template
from ckpt_conformance.report.text import evidence, rerun

_TOLD = frozenset(Verdict) - {Verdict.PASSED, Verdict.NOT_APPLICABLE}


def files_of(matrix: Matrix) -> dict[str, str]:
    """File name to text: every rendering."""
    return {
        "matrix.html": render_html(matrix),
        "matrix.md": render_markdown(matrix),
        "matrix.json": json_text(matrix.to_data()),
        "findings.md": render_findings(matrix),
    }


def write(matrix: Matrix, folder: Path) -> None:
    """Write every rendering into a report folder: all of them whole, or none.

    Raises:
        ReportError: The folder is not ours, or cannot be written.
    """
    write_files(files_of(matrix), folder)


def render_html(matrix: Matrix) -> str:
    """One self-contained page: no script, nothing from the network, every text escaped."""
    return _template().render(
        matrix=matrix, symbols=SYMBOLS, meanings=MEANINGS, told=_TOLD, failing=NONCONFORMING,
        cause_of=cause_of, rerun=rerun, verdicts=list(Verdict), left_out=LEFT_OUT,
    )  # fmt: skip


def _template() -> Template:
    return template(
        "ckpt_conformance.matrix",
        "matrix.html.j2",
        line=one_line,
        evidence=evidence,
        slug=slug,
    )


def render_markdown(matrix: Matrix) -> str:
    """The roll-ups by family, and each requirement that did not pass everywhere."""
    return "\n".join(_markdown(matrix)) + "\n"


def _markdown(matrix: Matrix) -> Iterator[str]:
    ran = len(matrix.runs)
    yield "# Published checkpoint implementations against the standard"
    yield ""
    yield (
        f"{ran} candidates, {len(matrix.standard)} requirements, {', '.join(matrix.devices)}; "
        f"begun {matrix.started}, {matrix.seconds / 60:.1f} minutes. The same as a page: "
        "[matrix.html](matrix.html); what lies behind the failures: [findings.md](findings.md)."
    )
    yield ""
    yield f"Made by `{matrix.command}`"
    yield ""
    yield "A cell says how many of a family's applicable requirements passed. A failure is not always a"
    yield "fault: limits that a project documents count here and are marked in findings.md."
    yield ""
    yield from _rollups(matrix)
    yield ""
    yield "## Requirements that not every candidate passed"
    yield ""
    yield " ".join(f"{SYMBOLS[verdict]} {verdict}." for verdict in Verdict)
    yield ""
    yield from _requirements(matrix)
    problems = [row for row in matrix.rows if row.problem]
    if problems:
        yield ""
        yield "## What could not be run, or went wrong beside the requirements"
        yield ""
        yield from (f"- {row.name}: {one_line(row.problem)}" for row in problems)
    yield ""
    yield "## Tried or looked at, and left out"
    yield ""
    yield "| package | entry point | why |"
    yield "| --- | --- | --- |"
    yield from (f"| {left.package} | {left.entry} | {left.why} |" for left in LEFT_OUT)


def _rollups(matrix: Matrix) -> Iterator[str]:
    yield f"| candidate | package | conformance | passed | failed | {' | '.join(matrix.families)} |"
    yield f"|{' --- |' * (5 + len(matrix.families))}"
    for row in matrix.rows:
        if row.run is None:
            continue
        cells = [matrix.rollup(row.name, family) for family in matrix.families]
        shown = " | ".join(f"{cell.passed}/{cell.applicable}" if cell.applicable else "·" for cell in cells)
        run = row.run
        yield (
            f"| {row.name} | {run.candidate.distribution} | {run.conformance} "
            f"| {run.counts.get('passed', 0)} | {len(run.failures)} | {shown} |"
        )


def _requirements(matrix: Matrix) -> Iterator[str]:
    names = list(matrix.found)
    yield f"| requirement | level | {' | '.join(names)} |"
    yield f"|{' --- |' * (2 + len(names))}"
    for made in matrix.standard:
        seen = [matrix.found[name].get(made.id) for name in names]
        if any(finding is not None and finding.verdict in _TOLD for finding in seen):
            marks = " | ".join(SYMBOLS[finding.verdict] if finding else "" for finding in seen)
            yield f"| {made.id} | {made.level} | {marks} |"
