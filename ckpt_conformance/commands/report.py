"""Render a saved report, of a run or of leaks, as text or as another format."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

FORMATS: Final = ("text", "html", "markdown", "sarif")

USAGE: Final = "FILE [OPTIONS]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="report.json, leaks.json, or their folder")
    parser.add_argument("--format", choices=FORMATS, default="text", help="text by default")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write it there; nothing is asked before")
    parser.add_argument("--all", action="store_true", help="as text, write out all leaks, not ten alone")


def execute(arguments: argparse.Namespace) -> int:
    """Render the file."""
    from ckpt_conformance.report.leaks.files import LEAKS
    from ckpt_conformance.report.storage import read_data

    file = arguments.file
    if file.is_dir() and (file / LEAKS).is_file():
        file /= LEAKS
    data = None if file.is_dir() else read_data(file)
    if isinstance(data, dict) and "leaks" in data:
        text = _leaks(data, file, arguments)
    else:
        text = _run(file, arguments.format)
    _give(text, arguments.output)
    return 0


def _leaks(data: dict[str, Any], file: Path, arguments: argparse.Namespace) -> str:
    from ckpt_conformance.leaks.text import as_text
    from ckpt_conformance.report.clean import harmless
    from ckpt_conformance.report.leaks.files import leak_report_of
    from ckpt_conformance.report.leaks.html import render_leak_html
    from ckpt_conformance.report.leaks.markdown import render_leak_markdown
    from ckpt_conformance.report.leaks.sarif import render_leak_sarif
    from ckpt_conformance.report.storage import json_text

    report = leak_report_of(data, file)
    if arguments.format == "html":
        return render_leak_html(report)
    if arguments.format == "markdown":
        return render_leak_markdown(report)
    if arguments.format == "sarif":
        return json_text(render_leak_sarif(report))
    return harmless(as_text(report, every=arguments.all)) + "\n"


def _run(file: Path, wanted: str) -> str:
    from ckpt_conformance.report.html import render_html
    from ckpt_conformance.report.markdown import render_markdown
    from ckpt_conformance.report.sarif import render_sarif
    from ckpt_conformance.report.storage import json_text, read_report
    from ckpt_conformance.report.text import render_text
    from ckpt_conformance.standard.registry import requirements

    run, standard = read_report(file), list(requirements())
    if wanted == "html":
        return render_html(run, standard)
    if wanted == "markdown":
        return render_markdown(run, standard)
    if wanted == "sarif":
        return json_text(render_sarif(run, standard))
    return render_text(run, standard)


def _give(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    from ckpt_conformance.report.model import ReportError

    try:
        output.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ReportError(f"{output} cannot be written: {error.strerror or error}") from error
    print(f"written: {output}")
