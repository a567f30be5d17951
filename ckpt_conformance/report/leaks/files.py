"""The files of a leak report's folder, written and read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ckpt_conformance.leaks.model import LeakReport
from ckpt_conformance.leaks.text import as_text
from ckpt_conformance.report.clean import harmless
from ckpt_conformance.report.leaks.html import render_leak_html
from ckpt_conformance.report.leaks.markdown import render_leak_markdown
from ckpt_conformance.report.leaks.sarif import render_leak_sarif
from ckpt_conformance.report.leaks.schema import leak_problem
from ckpt_conformance.report.model import ReportError
from ckpt_conformance.report.storage import claim, json_text, write_files

LEAKS: Final = "leaks.json"
"""The file of a folder that holds the leak report."""
_NAME: Final = 100


def leak_files(report: LeakReport) -> dict[str, str]:
    """Name within the folder to text: the data, and every rendering."""
    return {
        LEAKS: json_text(report.to_data()),
        "leaks.html": render_leak_html(report),
        "leaks.sarif": json_text(render_leak_sarif(report)),
        "leaks.txt": harmless(as_text(report, every=True)) + "\n",
        "summary.md": render_leak_markdown(report),
    }


def write_leak_report(report: LeakReport, folder: Path, name: str) -> Path:
    """Write a test's leak report into a folder of its own within the given one; gives that folder.

    Where GitHub runs this as a step (`GITHUB_STEP_SUMMARY`), a leak is added to the step's summary.

    Raises:
        ReportError: The folder is not ours, or cannot be written.
    """
    claim(folder)
    place = folder / file_name(name)
    if place.is_symlink():
        raise ReportError(f"{place} is a symbolic link out of the report folder; remove it")
    files = leak_files(report)
    write_files(files, place)
    if report.leaks:
        _add_to_summary(files["summary.md"])
    return place


def file_name(test: str) -> str:
    """A test's id as the name of a folder."""
    return re.sub(r"[^\w.-]+", "-", test).strip("-.")[-_NAME:] or "steps"


def _add_to_summary(text: str) -> None:
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return
    try:
        with Path(summary).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise ReportError(f"{summary} cannot be written: {error.strerror or error}") from error


def leak_report_of(data: Mapping[str, Any], path: Path) -> LeakReport:
    """The leak report that a file's data describes.

    Raises:
        ReportError: It is no leak report of a known format.
    """
    problem = leak_problem(data)
    if problem is not None:
        raise ReportError(f"{path} is no leak report of a known format: {problem}")
    return LeakReport.from_data(data)
