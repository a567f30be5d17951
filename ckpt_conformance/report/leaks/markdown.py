"""A leak report as Markdown, for a GitHub step summary."""

from __future__ import annotations

from typing import Final

from ckpt_conformance.instruments.growth import Growth
from ckpt_conformance.leaks.model import Leak, LeakReport
from ckpt_conformance.leaks.text import column_line, leak_lines, types_line, unseen, verdict
from ckpt_conformance.report.markdown import escaped, fenced
from ckpt_conformance.report.text import evidence

MOST: Final = 50
"""GitHub takes 1 MiB a summary; the rest is in the report."""


def render_leak_markdown(report: LeakReport) -> str:
    """The report as Markdown: verdict, command, growth, each leak folded."""
    parts = [f"## {'✗' if report.new else '✓'} {escaped(verdict(report))}"]
    if report.command:
        parts.append(fenced(evidence(report.command)))
    parts.append("\n".join(_table(report)))
    if report.types:
        parts.append(f"Python types that grew, by objgraph: {escaped(types_line(report.types))}")
    parts += [_folded(leak) for leak in report.leaks[:MOST]]
    if len(report.leaks) > MOST:
        parts.append(f"{len(report.leaks) - MOST} more leaks are in the report.")
    rest = [*map(column_line, report.columns), *unseen(report), *report.notes]
    parts.append(fenced(evidence("\n".join(rest), 4000)))
    return "\n\n".join(parts) + "\n"


def _table(report: LeakReport) -> list[str]:
    steps = range(1, report.steps + 1)
    heads = [f"{step} (warm-up)" if step <= report.warmup else str(step) for step in steps]
    lines = [f"| after step | {' | '.join(heads)} | |", f"| --- |{' ---: |' * report.steps} --- |"]
    return lines + [f"| {escaped(name)} | {_row(growth)} |" for name, growth in report.growth.items()]


def _row(growth: Growth) -> str:
    return " | ".join([*map(str, growth.levels), escaped(growth.trend)])


def _folded(leak: Leak) -> str:
    title = f"{leak.status} <code>{leak.fingerprint}</code> {escaped(leak.kind)}: {escaped(leak.holder)}"
    body = fenced(evidence("\n".join(leak_lines(leak)), 8000))
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
