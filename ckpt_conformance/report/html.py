"""A run as one HTML page that needs no network and no script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jinja2 import Template

from ckpt_conformance.report.clean import harmless, one_line
from ckpt_conformance.report.conformance import denominator
from ckpt_conformance.report.diagnosis import causes
from ckpt_conformance.report.legend import MEANINGS, SYMBOLS
from ckpt_conformance.report.model import Finding, Run
from ckpt_conformance.report.template import template
from ckpt_conformance.report.text import by_cause, evidence, headline, rerun
from ckpt_conformance.standard.registry import Requirement


def render_html(run: Run, standard: Sequence[Requirement]) -> str:
    """The run as a self-contained page: findings by family, those that failed unfolded, filtered by verdict.

    Every text is escaped; the page's content policy forbids scripts and the network.

    Args:
        run: The run.
        standard: Every requirement there is; it gives sentences and reasons.
    """
    return _template().render(
        run=run,
        headline=headline(run).split("\n"),
        denominator=denominator(run, standard),
        counts=run.counts,
        failures=run.failures,
        causes=causes(run),
        families=list(_families(run)),
        known={made.id: made for made in standard},
        symbols=SYMBOLS,
        meanings=MEANINGS,
        rerun=rerun,
    )


def _families(run: Run) -> Iterator[tuple[str, list[Finding]]]:
    findings = by_cause(run.findings)
    for family in dict.fromkeys(finding.family for finding in findings):
        yield family, [finding for finding in findings if finding.family == family]


def _template() -> Template:
    return template(
        "ckpt_conformance.report",
        "run.html.j2",
        line=one_line,
        evidence=evidence,
        code=harmless,
        slug=slug,
    )


def slug(text: str) -> str:
    """A requirement's id or a verdict as an HTML id or class, or as the name of a file."""
    return text.replace("/", "--").replace(" ", "-")
