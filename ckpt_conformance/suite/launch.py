"""Run the whole suite for one candidate, in workers, with nothing of the caller's pytest in it."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
import torch

from ckpt_conformance import catalog
from ckpt_conformance.candidate import Candidate, CandidateError, Expected, Style
from ckpt_conformance.expectations import read_expectations
from ckpt_conformance.report.compare import check_comparable
from ckpt_conformance.report.folder import report_files
from ckpt_conformance.report.model import Finding, Run
from ckpt_conformance.report.storage import claim, read_report, write_report
from ckpt_conformance.resolve import resolve
from ckpt_conformance.standard.registry import requirements
from ckpt_conformance.suite.child import ChildDiedError, in_child
from ckpt_conformance.suite.interrupts import terminable, undisturbed
from ckpt_conformance.suite.limits import Limits
from ckpt_conformance.suite.options import (
    BAD_INPUT,
    LIMITS,
    MAKING,
    DeviceError,
    Options,
    device_named,
    expected_of,
)
from ckpt_conformance.suite.recorder import Recorder
from ckpt_conformance.suite.scripts import scripts_for, with_scripts
from ckpt_conformance.suite.session import ISOLATED
from ckpt_conformance.suite.smoke import smoke

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        run: The record.
        faults: Requirement to what went wrong in the suite itself; the exit code is 3 where there is one.
        log: What pytest said, for the search for a fault.
    """

    run: Run
    faults: Mapping[str, str]
    log: str


@dataclass(frozen=True, slots=True)
class Described:
    """What is known of a candidate without having it.

    Attributes:
        candidate: Everything but a target that can be called.
        device: The device that was meant.
        trouble: Why it cannot be called in its style, in one line (see `smoke`); None where it can.
    """

    candidate: Candidate
    device: str
    trouble: str | None


def describe(target: str, style: Style | None, device: str, limits: Limits = LIMITS) -> Described:
    """What a candidate is, found out in a child: its import may crash or hang.

    Args:
        target: What the user typed.
        style: The calling style, where the user said it.
        device: `auto`, or the device to call it on.
        limits: What making it, and a call, may take.

    Raises:
        CandidateError: It cannot be had; one line.
        DeviceError: The device is not there.
    """
    try:
        plain = in_child(partial(_described, target, style, device, limits), limits.making, limits.memory)
    except ChildDiedError as error:
        raise CandidateError(f"candidate {target!r}: importing or making it {error}") from error
    if "problem" in plain:
        raise (DeviceError if plain["about"] == "device" else CandidateError)(plain["problem"])
    expected = {id_: Expected(**entry) for id_, entry in plain.pop("expected_failures").items()}
    device, trouble = plain.pop("device"), plain.pop("trouble")
    plain |= {"style": Style(plain["style"]), "capabilities": frozenset(plain["capabilities"])}
    return Described(Candidate(**plain, expected_failures=expected, target=_elsewhere), device, trouble)


def _elsewhere(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise AssertionError("the candidate lives in the workers")


def _described(target: str, style: Style | None, device: str, limits: Limits) -> dict[str, Any]:
    # asked through the driver, CUDA could not be used in the child that calls the candidate
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    try:
        named = device_named(device)
        candidate = resolve(target, style)
    except BAD_INPUT as error:
        return {"problem": str(error), "about": "device" if isinstance(error, DeviceError) else "candidate"}
    return {
        "name": candidate.name,
        "style": str(candidate.style),
        "spec": candidate.spec,
        "capabilities": sorted(candidate.capabilities),
        "expected_failures": {
            id_: {name: getattr(entry, name) for name in ("reason", "kind", "issue", "when")}
            for id_, entry in candidate.expected_failures.items()
        },
        "distribution": candidate.distribution,
        "remark": candidate.remark,
        "device": named,
        "trouble": _trouble(target, candidate, torch.device(named), limits),
    }


def _trouble(target: str, candidate: Candidate, device: torch.device, limits: Limits) -> str | None:
    """Why the candidate cannot be called; the catalog's adapters are ours, and can."""
    if catalog.find(target) is not None:
        return None
    # a child of this child would wait for a watch that it has not; our parent has one of its own
    faulthandler.cancel_dump_traceback_later()
    trouble = smoke(candidate, device, limits)
    return None if trouble is None else f"candidate {target!r} {trouble}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run that can start: everything that the user gave is known to be right.

    Attributes:
        target: What the user typed.
        candidate: What it means; see `describe`.
        expected: What is expected to fail.
        options: What was asked for.
        report: The folder for the report, or None.
        workers: How many processes run requirements.
        old: The run of another version that this one is compared with, or None.
    """

    target: str
    candidate: Candidate
    expected: Mapping[str, Expected]
    options: Options
    report: Path | None
    workers: int
    old: Run | None = None


def plan(
    target: str, options: Options, *, report: Path | None, workers: int, old: Path | None = None
) -> Plan:
    """Check everything that can be wrong with what the user gave, before anything slow begins.

    Raises:
        CandidateError: The candidate cannot be had, or not be called.
        DeviceError: The device is not there.
        ExpectationsError: The expectations are malformed or name a requirement that does not exist.
        SelectionError: Nothing is selected.
        ReportError: The report folder cannot be had, or the old report is no report of this candidate.
    """
    chosen = options.chosen()
    compared = None if old is None else read_report(old)
    if options.expect is not None:
        read_expectations(options.expect, {made.id for made in requirements()})
    found = describe(target, options.style, options.device, options.limits())
    if found.trouble is not None:
        raise CandidateError(found.trouble)
    candidate, device = found.candidate, found.device
    expected = expected_of(candidate, options.expect)
    if compared is not None:
        check_comparable(compared, candidate.name, candidate.style, device)
    if report is not None:
        claim(report)
    return Plan(
        target=target,
        candidate=candidate,
        expected=expected,
        options=replace(options, targets=(target,), device=device),
        report=report,
        workers=min(workers, len(chosen)),
        old=compared,
    )


def verify(plan: Plan, progress: Callable[[Finding], None] | None = None) -> Outcome:
    """Run the suite; write the report, if one was asked for.

    Args:
        plan: What to run.
        progress: Called with each finding as it comes.

    Raises:
        ReportError: The report cannot be written.
    """
    recorder = Recorder(
        {plan.target: plan.candidate},
        {plan.target: plan.expected},
        plan.options,
        progress=progress,
        own_workers=True,
    )
    log = io.StringIO()
    with terminable():
        _run_pytest(recorder, plan, log)
        run = _with_scripts(recorder.runs()[0], plan)
    if plan.report is not None:
        with undisturbed():
            write_report(run, plan.report, report_files(run, list(requirements()), plan.old))
            recorder.keep_snapshots(plan.report)
    faults = dict(recorder.faults)
    if not recorder.interrupted:
        faults |= {id_: "it was never run" for id_ in recorder.missing() if id_ not in faults}
    return Outcome(run, faults, log.getvalue())


def _run_pytest(recorder: Recorder, plan: Plan, log: io.StringIO) -> None:
    with _own_environment(), contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        try:
            pytest.main(_arguments(plan), plugins=[recorder])
        except KeyboardInterrupt:
            # before pytest was ready for it, or for the second time
            recorder.pytest_keyboard_interrupt()


def _arguments(plan: Plan) -> list[str]:
    options = plan.options
    given = ["--ckpt-candidate", plan.target, "--ckpt-device", options.device]
    given += [f"--ckpt-select={one}" for one in options.select]
    given += [f"--ckpt-memory-limit={options.memory}"]
    for name, value in (
        ("style", options.style),
        ("expect", options.expect),
        ("timeout", options.seconds),
        ("order", options.order),
    ):
        given += [f"--ckpt-{name}={value}"] if value is not None else []
    return [
        str(_HERE / "test_standard.py"), f"-c{ISOLATED}", "-s", f"--rootdir={_HERE}", "--noconftest",
        "-pxdist", "-pckpt_conformance.plugin", "-pno:cacheprovider", "-pno:faulthandler", "-pno:warnings",
        f"-n{plan.workers}", "--max-worker-restart=100000", *given, *(["--ckpt-level=full"] * options.full),
    ]  # fmt: skip


@contextlib.contextmanager
def _own_environment() -> Iterator[None]:
    """Keep the caller's pytest out, and let workers share the cores rather than fight for them."""
    before = dict(os.environ)
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["PYTHONWARNINGS"] = "ignore"
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _with_scripts(run: Run, plan: Plan) -> Run:
    """Add each failure's script, which is made where the candidate is: in a child."""
    if not run.failures:
        return run

    def make() -> dict[str, str]:
        return scripts_for(run, resolve(plan.target, plan.options.style), plan.target)

    with contextlib.suppress(ChildDiedError, KeyboardInterrupt):
        return with_scripts(run, in_child(make, MAKING, plan.options.most_bytes))
    return run
