"""A leak report as one HTML page that needs no network and no script."""

from __future__ import annotations

from jinja2 import Template

from ckpt_conformance.leaks.baseline import baseline_entry
from ckpt_conformance.leaks.model import MEANING, LeakReport
from ckpt_conformance.leaks.text import NOT_RECORDED, facts_line, folded, unseen, verdict
from ckpt_conformance.report.clean import harmless, one_line
from ckpt_conformance.report.leaks.chart import bytes_chart, size
from ckpt_conformance.report.leaks.picture import picture
from ckpt_conformance.report.template import template
from ckpt_conformance.report.text import evidence

MOST = 100
"""So many leaks are on the page; all are in `leaks.json`."""
_DRAWN = 10


def render_leak_html(report: LeakReport) -> str:
    """The report as a self-contained page: every text escaped, scripts and the network forbidden."""
    leaks = report.leaks[:MOST]
    return _template().render(
        report=report,
        verdict=verdict(report),
        chart=bytes_chart(report.growth["bytes"]) if "bytes" in report.growth else "",
        grew=any(growth.leaks for growth in report.growth.values()),
        leaks=leaks,
        pictures={leak.fingerprint: picture(leak) for leak in leaks[:_DRAWN] if leak.steps},
        meaning=MEANING,
        unseen=list(unseen(report)),
        not_recorded=NOT_RECORDED,
    )


def _template() -> Template:
    return template(
        "ckpt_conformance.report.leaks",
        "leaks.html.j2",
        line=one_line,
        path=_long_line,
        evidence=evidence,
        code=harmless,
        size=size,
        folded=folded,
        told=facts_line,
        baseline=baseline_entry,
    )


def _long_line(text: str) -> str:
    return one_line(text, 2000)
