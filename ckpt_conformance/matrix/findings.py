"""The failures of published implementations, grouped by cause, worst first, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files

from ckpt_conformance.matrix.causes import KINDS, Cause, by_cause
from ckpt_conformance.matrix.table import Matrix
from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.links import link_of
from ckpt_conformance.report.model import Finding

_MOST = 12


def render_findings(matrix: Matrix) -> str:
    """The document: a list of the causes, then each with what a user sees, its script and its failures."""
    return "\n".join(_lines(matrix)) + "\n"


def _lines(matrix: Matrix) -> Iterator[str]:
    grouped = by_cause(matrix.runs)
    known = {cause: found for cause, found in grouped.items() if cause is not None}
    yield files(__package__).joinpath("findings_head.md").read_text(encoding="utf-8").rstrip()
    yield ""
    yield from _summary(matrix, known, len(grouped.get(None, ())))
    for kind in KINDS:
        of_kind = [cause for cause in known if cause.kind == kind]
        if of_kind:
            yield f"\n## {kind[0].upper()}{kind[1:]}"
        for cause in of_kind:
            yield from _cause(cause, known[cause])
    if grouped.get(None):
        yield "\n## Not looked into yet\n"
        yield "Nobody has checked by a second route which side is wrong here: take these as open.\n"
        yield from _failures(grouped[None], len(grouped[None]))


def _summary(
    matrix: Matrix, known: dict[Cause, list[tuple[str, Finding]]], unexplained: int
) -> Iterator[str]:
    failures = sum(len(run.failures) for run in matrix.runs)
    documented = sum(len(found) for cause, found in known.items() if cause.documented)
    silent = [cause for cause in known if not cause.documented and not cause.known]
    yield (
        f"{len(matrix.runs)} candidates, {failures} failures, {len(known)} causes; {documented} failures "
        f"are of causes that the projects document, {unexplained} are not looked into. "
        f"{len(silent)} causes are neither documented nor in a public report that we found."
    )
    yield ""
    yield "| cause | a user sees | failures | candidates | documented | reported |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for cause, found in known.items():
        names = len({name for name, _ in found})
        yield (
            f"| [{cause.title}](#{cause.id}) | {cause.kind} | {len(found)} | {names} "
            f"| {'yes' if cause.documented else 'no'} | {' '.join(_links(cause.known)) or 'not found'} |"
        )


def _cause(cause: Cause, found: list[tuple[str, Finding]]) -> Iterator[str]:
    yield f'\n<a id="{cause.id}"></a>\n\n### {cause.title}\n'
    yield f"{cause.seen}\n"
    yield f"- Documented: {cause.documented or 'no'}"
    yield f"- Reported: {', '.join(_links(cause.known)) or 'no public report found'}"
    if cause.since:
        yield f"- Since: {cause.since}"
    for script in cause.scripts:
        yield f"- Script: [findings/{script}](findings/{script})"
    yield ""
    yield from _failures(found, _MOST)


def _failures(found: Sequence[tuple[str, Finding]], most: int) -> Iterator[str]:
    grouped: dict[str, list[str]] = {}
    for name, finding in found:
        grouped.setdefault(finding.requirement, []).append(name)
    for requirement, names in list(grouped.items())[:most]:
        example = next(finding for _, finding in found if finding.requirement == requirement)
        yield f"- `{requirement}` ({', '.join(names)}): {_escaped(one_line(example.summary, 160))}"
    if len(grouped) > most:
        yield f"- and {len(grouped) - most} more requirements, see the matrix"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _links(reports: Sequence[str]) -> list[str]:
    return [f"[{report}]({link_of(report)})" if link_of(report) else report for report in reports]
