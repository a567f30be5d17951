"""Hold one candidate to one requirement and give the finding."""

from __future__ import annotations

import signal
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from ckpt_conformance.candidate import PLAIN, Candidate, Style
from ckpt_conformance.instruments.names import type_name
from ckpt_conformance.instruments.state import isolated
from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.model import Finding, Verdict
from ckpt_conformance.standard.compare import CLEAR_ERRORS
from ckpt_conformance.standard.evidence import Violation
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import Level, Requirement
from ckpt_conformance.suite.device import is_lost, settle


class SuiteFaultError(Exception):
    """The requirement itself is broken: it raises on a plain run too. Exit code 3."""


def judge(requirement: Requirement, candidate: Candidate, lab: Lab) -> Finding:
    """Check one requirement and turn what happens into a finding.

    Raises:
        SuiteFaultError: The check raises something else than a violation also where nothing is checkpointed.
        KeyboardInterrupt: The user interrupted; one that the candidate raised is a finding.
    """
    reason = why_not_applicable(requirement, candidate, lab)
    if reason is not None:
        return _finding(requirement, Verdict.NOT_APPLICABLE, reason)
    started = time.perf_counter()
    with _interrupts() as interrupted, warnings.catch_warnings():
        # the warning filters of whoever runs us must not turn a candidate's warning into an error
        warnings.simplefilter("ignore")
        finding = _checked(requirement, candidate, lab)
    if interrupted:
        raise KeyboardInterrupt
    return replace(finding, seconds=time.perf_counter() - started)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Note the user's interrupts: they end the run, while a candidate may raise KeyboardInterrupt itself."""
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield seen
        return

    def note(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def why_not_applicable(requirement: Requirement, candidate: Candidate, lab: Lab) -> str | None:
    """Why the requirement is not about this candidate here, or None."""
    if candidate.style not in requirement.styles:
        return f"is about the calling styles {', '.join(sorted(requirement.styles))}"
    if lab.device.type not in requirement.devices:
        return f"is about {', '.join(sorted(requirement.devices))} devices"
    return None if requirement.needs is None else requirement.needs(lab)


def _checked(requirement: Requirement, candidate: Candidate, lab: Lab) -> Finding:
    try:
        with isolated():
            requirement.check(candidate, lab)
            settle(lab.device)
    except Violation as violation:
        return _failed(requirement, candidate, violation)
    except BaseException as error:  # noqa: BLE001 - a candidate may raise anything, SystemExit included
        return _raised(requirement, candidate, lab, error)
    return _finding(requirement, Verdict.PASSED, requirement.sentence)


def _failed(requirement: Requirement, candidate: Candidate, violation: Violation) -> Finding:
    newer = requirement.since > candidate.spec
    verdict = Verdict.ADVISORY if newer or requirement.level is Level.SHOULD else Verdict.FAILED
    return replace(
        _finding(requirement, verdict, violation.summary),
        expected=violation.expected,
        found=violation.found,
        trace=violation.trace,
    )


def _raised(requirement: Requirement, candidate: Candidate, lab: Lab, error: BaseException) -> Finding:
    said = _said(error)
    if is_lost(lab.device):
        lost = _finding(requirement, Verdict.CRASHED, "CUDA was lost to the process")
        return replace(lost, expected="that the device survives", found=said)
    _refuse_own_fault(requirement, lab, error)
    left_out = requirement.capability is not None and requirement.capability not in candidate.capabilities
    # infinite recursion is a RuntimeError too, but nobody's decision
    clear = isinstance(error, CLEAR_ERRORS) and not isinstance(error, RecursionError)
    if left_out and clear and _message(error):
        return replace(_finding(requirement, Verdict.REFUSED, f"refused by {said}"), found=said)
    trace = tuple(
        line for entry in traceback.format_tb(error.__traceback__) for line in entry.rstrip().split("\n")
    )
    violation = Violation("the candidate raised", expected="no error", found=said, trace=trace[-16:])
    return _failed(requirement, candidate, violation)


def _said(error: BaseException) -> str:
    message, kind = _message(error), one_line(type_name(error))
    return f"{kind}: {message}" if message else kind


def _message(error: BaseException) -> str:
    try:
        return " ".join(str(error).split())[:300]
    except BaseException as again:  # noqa: BLE001 - an exception of the candidate's may not even have words
        return f"(its message cannot be had: str() raised {one_line(type_name(again))})"


def _refuse_own_fault(requirement: Requirement, lab: Lab, error: BaseException) -> None:
    """Tell a broken check from a broken candidate: run it where nothing is checkpointed."""
    if Style.FUNCTION not in requirement.styles:
        return
    try:
        with isolated():
            requirement.check(PLAIN, lab)
    except Violation:
        return
    except Exception as again:
        if type(again) is type(error):
            raise SuiteFaultError(f"{requirement.id} raises {again!r} on a plain run too") from again


def _finding(requirement: Requirement, verdict: Verdict, summary: str) -> Finding:
    return Finding(requirement=requirement.id, level=requirement.level, verdict=verdict, summary=summary)
