"""Run candidates one after another, each in a process and an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import ckpt_conformance
from ckpt_conformance.matrix.environments import interpreter
from ckpt_conformance.report.model import ReportError, Run
from ckpt_conformance.report.storage import REPORT, read_report

RUNS: Final = "runs"
"""The folder of a matrix that holds a report folder for each candidate."""
_CONFORMS: Final = frozenset({0, 1})


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one candidate.

    Attributes:
        name: Its name in the catalog.
        run: The record of its run; None where there is none.
        problem: Why it could not be run, or what went wrong beside it; empty where nothing did.
        seconds: Wall time, the making of an environment included.
    """

    name: str
    run: Run | None
    problem: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How candidates are run.

    Attributes:
        report: The matrix's folder.
        pythons: Candidate or environment to interpreter, as the user said.
        environments: Where environments are made; None to use the running Python.
        device: Where the requirements run.
        workers: Worker processes per candidate.
        limit: Seconds that one candidate may take.
        again: Whether to run those of which there is a report already.
    """

    report: Path
    pythons: Mapping[str, Path]
    environments: Path | None
    device: str = "cpu"
    workers: int = 2
    limit: float = 900.0
    again: bool = True


def run_all(names: list[str], settings: Settings, progress: Callable[[Row], None]) -> list[Row]:
    """Run each candidate; whatever one of them does, the next is run.

    Args:
        names: Catalog names, or `pkg.module:attr`.
        settings: How.
        progress: Called with each row as it comes.
    """
    rows = []
    for name in names:
        started = time.perf_counter()
        row = run_one(name, settings)
        rows.append(Row(row.name, row.run, row.problem, row.seconds or time.perf_counter() - started))
        progress(rows[-1])
    return rows


def run_one(name: str, settings: Settings) -> Row:
    """Run one candidate in its own interpreter, or take the report that is there."""
    folder = settings.report / RUNS / name.replace(":", "-")
    if not settings.again:
        row = kept(name, folder)
        if row is not None:
            return row
    (folder / REPORT).unlink(missing_ok=True)
    try:
        python = interpreter(name, settings.pythons, settings.environments)
    except ReportError as error:
        return Row(name, None, str(error))
    return _row(name, folder, *_call(python, name, folder, settings))


def kept(name: str, folder: Path) -> Row | None:
    """The row that an earlier, uninterrupted run left."""
    try:
        run = read_report(folder)
    except ReportError:
        return None
    return None if run.interrupted else Row(name, run, "", run.seconds)


def _row(name: str, folder: Path, code: int, said: str) -> Row:
    try:
        run = read_report(folder)
    except ReportError:
        return Row(name, None, said or f"exit code {code}")
    return Row(name, run, "" if code in _CONFORMS else said)


def _call(python: Path, name: str, folder: Path, settings: Settings) -> tuple[int, str]:
    command = [str(python), "-m", "ckpt_conformance", "run", name, "--report", str(folder)]
    command += ["--device", settings.device, "-n", str(settings.workers)]
    here = str(Path(ckpt_conformance.__file__).parent.parent)
    paths = os.pathsep.join(part for part in (here, os.environ.get("PYTHONPATH", "")) if part)
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        done = subprocess.run(  # noqa: S603 - the user's own interpreter
            command, env=environment, capture_output=True, text=True, timeout=settings.limit, check=False
        )
    except (subprocess.TimeoutExpired, OSError) as error:
        return -1, " ".join(str(error).split())[:300]
    return done.returncode, _last_line(done.stderr)


def _last_line(said: str) -> str:
    """What a process ended on: the command line says in one line what it lacks; warnings come before."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][-300:] if lines else ""
