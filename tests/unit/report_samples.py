"""Findings, requirements and runs for the tests of the report."""

from __future__ import annotations

from datetime import UTC, datetime

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.report.model import Finding, Run, Verdict
from ckpt_conformance.report.record import record
from ckpt_conformance.standard.registry import ALL_STYLES, Level, Requirement


def _check(candidate: object, lab: object) -> None:
    """Values are right.

    Wrong values teach nothing.

    How: compute them.
    """


def requirement(id_: str, level: Level = Level.MUST, since: str = "2026.12") -> Requirement:
    capability = "rng" if level is Level.MAY else None
    sources = ("pytorch/pytorch#14253",)
    return Requirement(
        id_, level, since, sources, _check, capability, ALL_STYLES, frozenset({"cpu"}), None, False
    )


STANDARD = [
    requirement("rng/mask"),
    requirement("views/split"),
    requirement("values/sum"),
    requirement("values/neat", Level.SHOULD),
    requirement("memory/peak"),
]


def finding(id_: str, verdict: Verdict = Verdict.PASSED, **texts: object) -> Finding:
    level = "SHOULD" if id_ == "values/neat" else "MUST"
    return Finding(requirement=id_, level=level, verdict=verdict, **{"summary": "a line", **texts})  # type: ignore[arg-type]


def checkpoint(fn, *args):
    return fn(*args)


def run_of(*findings: Finding, name: str = "mylib", **options: object) -> Run:
    candidate = Candidate.from_function(checkpoint, name=name, capabilities={"rng", "kwargs"})
    settings = {
        "target": "mylib.remat:checkpoint",
        "started": datetime(2026, 12, 1, tzinfo=UTC),
        "seconds": 2.0,
    }
    return record(candidate, findings, STANDARD, **settings | options)  # type: ignore[arg-type]


FAILING = run_of(
    finding(
        "values/sum", Verdict.FAILED, summary="gradient differs", expected="1", found="2", script="print(1)\n"
    ),
    finding(
        "rng/mask", Verdict.FAILED, summary="mask differs", expected="same", found="other", trace=("a", "b")
    ),
    finding("views/split"),
    finding("values/neat", Verdict.ADVISORY, summary="untidy"),
)
NASTY = (
    "\x1b[31mred\x1b[0m\n::error::pwned\n  ::set-output name=a::b\n##[error]x"
    " <script>alert(1)</script> \ud800 \u202e ```"
)
