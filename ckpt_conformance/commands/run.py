"""Verify a candidate against the standard and say what fails, and why."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ckpt_conformance.cli import FAULT

if TYPE_CHECKING:
    from ckpt_conformance.report.model import Finding
    from ckpt_conformance.suite.launch import Outcome
    from ckpt_conformance.suite.options import Options

DEFAULT: Final = "reference"
_MARKS: Final = {
    "passed": ".", "failed": "F", "crashed": "C", "hung": "H", "expected": "x", "advisory": "a",
    "refused": "r", "not applicable": "-",
}  # fmt: skip
_WIDTH: Final = 80
_WORKERS: Final = 2
"""More workers than this cost more in importing torch than they win."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "candidate", nargs="?", metavar="CANDIDATE",
        help="a name of `list candidates`, or pkg.module:attribute; the bundled reference if none is named",
    )  # fmt: skip
    parser.add_argument(
        "--report", metavar="DIR", type=Path, help="write report.json and its renderings there"
    )
    add_run_arguments(parser)
    parser.add_argument(
        "--expect", metavar="FILE", type=Path, help="what is expected to fail, and why (TOML)"
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every command that runs the suite takes."""
    parser.add_argument("--device", default="cpu", help="cpu (the default), cuda or auto")
    parser.add_argument("--select", nargs="+", action="extend", default=[], metavar="FAMILY_OR_ID",
                        help="run these only")  # fmt: skip
    parser.add_argument("--style", choices=["function", "discarding", "wrapper", "context"],
                        help="the calling style, if looking at the candidate tells wrongly")  # fmt: skip
    parser.add_argument("--level", choices=["default", "full"], default="default",
                        help="full: run the slow requirements too")  # fmt: skip
    parser.add_argument("-n", type=_positive, metavar="N", help="how many worker processes (at most 2)",
                        default=min(_WORKERS, os.cpu_count() or 1))  # fmt: skip
    parser.add_argument("--timeout", type=_seconds, metavar="S",
                        help="how many seconds one requirement may take (20)")  # fmt: skip


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 up")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def options_of(arguments: argparse.Namespace, expect: Path | None) -> Options:
    """What the command line asked for."""
    from ckpt_conformance.candidate import Style
    from ckpt_conformance.suite.options import Options

    return Options(
        targets=(),
        style=Style(arguments.style) if arguments.style else None,
        device=arguments.device,
        select=tuple(arguments.select),
        full=arguments.level == "full",
        expect=expect.absolute() if expect else None,
        seconds=arguments.timeout,
    )


def execute(arguments: argparse.Namespace) -> int:
    """Verify the candidate and print the run."""
    from ckpt_conformance.report.text import render_text
    from ckpt_conformance.standard.registry import requirements
    from ckpt_conformance.suite.launch import plan, verify

    report = arguments.report.absolute() if arguments.report else None
    options = options_of(arguments, arguments.expect)
    ready = plan(arguments.candidate or DEFAULT, options, report=report, workers=arguments.n)
    progress = Progress(len(options.chosen()))
    outcome = verify(ready, progress)
    progress.end()
    sys.stdout.write(render_text(outcome.run, list(requirements())))
    if report is not None:
        print(f"report: {report}")
    if arguments.candidate is None:
        _say_what_next()
    return exit_code(outcome)


class Progress:
    """One mark for each finding, as it comes.

    Args:
        total: How many there will be.
    """

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0
        # pytest redirects what prints; this is where the user looks
        self._out = sys.stdout

    def __call__(self, finding: Finding) -> None:
        """Show one finding."""
        self._done += 1
        self._out.write(_MARKS[finding.verdict])
        if self._done % _WIDTH == 0:
            self._out.write(f" {self._done} of {self._total}\n")
        self._out.flush()

    def end(self) -> None:
        """End the last line."""
        if self._done % _WIDTH:
            self._out.write(f" {self._done} of {self._total}\n")
        self._out.write("\n")


def exit_code(outcome: Outcome) -> int:
    """0 conforms or every failure is expected, 1 it does not, 3 the suite itself is at fault."""
    if not outcome.faults:
        return outcome.run.exit_code
    for requirement, said in outcome.faults.items():
        print(f"fault in the suite: {requirement}: {said.strip()[-2000:]}", file=sys.stderr)
    if not outcome.run.findings:
        print(outcome.log[-4000:], file=sys.stderr)
    return FAULT


def _say_what_next() -> None:
    print("\nThat was the bundled reference. Next, verify your own:")
    print("  ckpt-conformance run my.module:checkpoint --report out/")
    print("or a published one: ckpt-conformance list candidates")
