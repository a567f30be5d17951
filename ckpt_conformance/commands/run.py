"""Verify a candidate against the standard and say what fails, and why."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ckpt_conformance.cli import FAULT
from ckpt_conformance.commands.numbers import gibibytes, seconds, whole

if TYPE_CHECKING:
    from ckpt_conformance.report.model import Finding, Run
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

USAGE: Final = "[CANDIDATE] [OPTIONS]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "candidate", nargs="?", metavar="CANDIDATE",
        help="a name of `list candidates`, or pkg.module:attribute; the bundled reference if none is named",
    )  # fmt: skip
    parser.add_argument(
        "--report", metavar="DIR", type=Path, help="write report.json and its renderings there"
    )
    parser.add_argument(
        "--compare", metavar="FILE", type=Path,
        help="an older report.json: tell NEW, FIXED and SAME failures, and end with 1 for NEW ones only",
    )  # fmt: skip
    parser.add_argument(
        "--expect", metavar="FILE", type=Path, help="what is expected to fail, and why (TOML)"
    )
    add_run_arguments(parser)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every command that runs the suite takes."""
    parser.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    parser.add_argument("--select", nargs="+", action="extend", default=[], metavar="NAME",
                        help="run these families or requirement ids only")  # fmt: skip
    add_style(parser)
    parser.add_argument("--level", choices=["default", "full"], default="default", metavar="full",
                        help="run the slow requirements too")  # fmt: skip
    parser.add_argument("-n", type=whole, metavar="N", help="how many worker processes (at most 2)",
                        default=min(_WORKERS, os.cpu_count() or 1))  # fmt: skip
    parser.add_argument("--timeout", type=seconds, metavar="S",
                        help="how many seconds one requirement may take (20)")  # fmt: skip
    parser.add_argument("--memory-limit", type=gibibytes, metavar="GIB",
                        help="how much memory a worker process may hold (4)")  # fmt: skip


def add_style(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how the candidate is called."""
    parser.add_argument("--style", choices=["function", "discarding", "wrapper", "context"], metavar="STYLE",
                        help="function, discarding, wrapper or context, if looking errs")  # fmt: skip


def options_of(arguments: argparse.Namespace, expect: Path | None) -> Options:
    """What the command line asked for."""
    from ckpt_conformance.candidate import Style
    from ckpt_conformance.suite.options import MEMORY, Options

    return Options(
        targets=(),
        style=Style(arguments.style) if arguments.style else None,
        device=arguments.device,
        select=tuple(arguments.select),
        full=arguments.level == "full",
        expect=expect.absolute() if expect else None,
        seconds=arguments.timeout,
        memory=arguments.memory_limit or MEMORY,
    )


def execute(arguments: argparse.Namespace) -> int:
    """Verify the candidate and print the run."""
    from ckpt_conformance.report.text import render_text
    from ckpt_conformance.standard.registry import requirements
    from ckpt_conformance.suite.launch import plan, verify

    report = arguments.report.absolute() if arguments.report else None
    options = options_of(arguments, arguments.expect)
    # an empty name is a variable that was not set: a pass of the reference would be taken for its pass
    target = DEFAULT if arguments.candidate is None else arguments.candidate
    ready = plan(target, options, report=report, workers=arguments.n, old=arguments.compare)
    if options.device == "auto":
        print(_where(ready.options.device))
    progress = Progress(len(options.chosen()))
    outcome = verify(ready, progress)
    progress.end()
    sys.stdout.write(render_text(outcome.run, list(requirements())))
    if report is not None:
        print(f"report: {report}")
    if arguments.candidate is None:
        _say_what_next()
    return exit_code(outcome) if ready.old is None else _compared(outcome, ready.old)


def _where(device: str) -> str:
    return f"device: {device}" if device != "cpu" else "device: cpu, as torch finds no CUDA device here"


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


def _compared(outcome: Outcome, old: Run) -> int:
    """Print the comparison; 1 where something fails that did not before, or the run is not whole."""
    from ckpt_conformance.report.compare import compare, render_comparison

    comparison = compare(old, outcome.run)
    print(f"\n{render_comparison(comparison)}", end="")
    if outcome.faults or outcome.run.interrupted:
        return exit_code(outcome)
    return comparison.exit_code


def _say_what_next() -> None:
    print("\nThat was the bundled reference. Next, verify your own:")
    print("  ckpt-conformance run my.module:checkpoint --report out/")
    print("or write a commented candidate file and a tox environment for it first:")
    print("  ckpt-conformance init my.module:checkpoint")
    print("or verify a published implementation: ckpt-conformance list candidates")
