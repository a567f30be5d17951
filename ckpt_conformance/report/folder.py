"""The files of a report folder, next to `report.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ckpt_conformance.report.compare import compare
from ckpt_conformance.report.html import render_html, slug
from ckpt_conformance.report.markdown import render_comparison_markdown, render_markdown
from ckpt_conformance.report.model import Run
from ckpt_conformance.report.sarif import render_sarif
from ckpt_conformance.report.storage import SCRIPTS
from ckpt_conformance.standard.registry import Requirement


def report_files(run: Run, standard: Sequence[Requirement], old: Run | None = None) -> dict[str, str]:
    """Path within the folder to text: every rendering of the run, and each failure's script.

    The summary begins with the comparison where there is an old run to compare with.
    """
    compared = "" if old is None else render_comparison_markdown(compare(old, run)) + "\n"
    return {
        "report.html": render_html(run, standard),
        "report.sarif": json.dumps(render_sarif(run, standard), indent=1) + "\n",
        "summary.md": compared + render_markdown(run, standard),
    } | {
        f"{SCRIPTS}/{slug(finding.requirement)}.py": finding.script
        for finding in run.findings
        if finding.script is not None
    }
