"""Small runs for the tests of the matrix."""

from __future__ import annotations

from typing import Any

from ckpt_conformance.report.model import CandidateFacts, Conformance, Finding, Run, Verdict


def finding(requirement: str, verdict: Verdict, **more: Any) -> Finding:
    return Finding(requirement=requirement, level="MUST", verdict=verdict, **{"summary": "it is so", **more})


def run_of(name: str, *findings: Finding, interrupted: bool = False) -> Run:
    return Run(
        standard="2026.12", package="0.1", torch="2.13.0", python="3.11.7", device="cpu",
        candidate=CandidateFacts(name=name, style="function", target=name, distribution=f"{name} 1.0"),
        conformance=Conformance.PARTIAL, findings=findings, started="2026-12-01T00:00:00+00:00", seconds=1.0,
        interrupted=interrupted,
    )  # fmt: skip
