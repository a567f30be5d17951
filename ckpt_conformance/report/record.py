"""Make the run's record: the findings together with what they were found on."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import torch

from ckpt_conformance import __version__
from ckpt_conformance.candidate import Candidate
from ckpt_conformance.report.clean import one_line, shortened
from ckpt_conformance.report.conformance import conformance
from ckpt_conformance.report.model import CandidateFacts, Finding, Run
from ckpt_conformance.standard.registry import Requirement

LINE: Final = 500
"""At most so many characters does a report keep of what ought to be one line, before the note of a cut."""
TEXT: Final = 8_000
"""The same for a longer text."""
TRACE: Final = 200
"""At most so many lines does a report keep of a trace."""


def record(
    candidate: Candidate,
    findings: Iterable[Finding],
    standard: Iterable[Requirement],
    *,
    target: str | None = None,
    device: str = "cpu",
    started: datetime | None = None,
    seconds: float = 0.0,
    interrupted: bool = False,
) -> Run:
    """The record of one run.

    Args:
        candidate: What was verified.
        findings: What came of it, in the order of the standard.
        standard: Every requirement there is, whether it was run or not.
        target: What the user typed to name the candidate; None derives it from the candidate's function.
        device: Where the requirements ran.
        started: When the run began; now, if None.
        seconds: Wall time of the run.
        interrupted: Whether it was cut short.
    """
    kept = tuple(bounded(finding) for finding in findings)
    return Run(
        standard=candidate.spec,
        package=__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        device=device,
        candidate=facts(candidate, target),
        conformance=conformance(kept, standard, version=candidate.spec),
        findings=kept,
        started=(started or datetime.now(UTC)).isoformat(timespec="seconds"),
        seconds=seconds,
        interrupted=interrupted,
    )


def facts(candidate: Candidate, target: str | None = None) -> CandidateFacts:
    """What the report says about a candidate."""
    return CandidateFacts(
        name=one_line(candidate.name),
        style=str(candidate.style),
        target=one_line(target or name_of_target(candidate.target)),
        capabilities=tuple(sorted(candidate.capabilities)),
        distribution=_distribution(candidate.distribution),
        remark=one_line(candidate.remark),
    )


def name_of_target(target: Any) -> str:
    """`pkg.module:attr` of a function or class, of the function inside a partial, or of an object's class."""
    while isinstance(target, partial):
        target = target.func
    named = target if hasattr(target, "__qualname__") else type(target)
    return f"{named.__module__}:{named.__qualname__}"


def _distribution(name: str | None) -> str:
    if name is None:
        return ""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def bounded(finding: Finding) -> Finding:
    """The finding with texts of a length that a report can keep: a candidate's `repr` may be a megabyte."""
    return replace(
        finding,
        summary=shortened(" ".join(finding.summary.split()), LINE),
        expected=shortened(finding.expected, TEXT),
        found=shortened(finding.found, TEXT),
        trace=tuple(shortened(line, LINE) for line in finding.trace[:TRACE]),
    )
