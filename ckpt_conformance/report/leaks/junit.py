"""A leak report as properties of a test in JUnit's XML, which pytest writes."""

from __future__ import annotations

from ckpt_conformance.leaks.model import LeakReport
from ckpt_conformance.leaks.text import verdict
from ckpt_conformance.report.clean import one_line


def junit_properties(report: LeakReport) -> list[tuple[str, str]]:
    """Name and value of each property: the verdict, bytes a step, and each leak by its fingerprint."""
    told = [("ckpt_leaks.verdict", one_line(verdict(report)))]
    told.append(("ckpt_leaks.bytes_per_step", str(report.per_step)))
    told += [
        (f"ckpt_leaks.{leak.fingerprint}", one_line(f"{leak.status} {leak.kind}: {leak.holder}"))
        for leak in report.leaks
    ]
    return told
