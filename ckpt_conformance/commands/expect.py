"""Write down which failures of a candidate are known; reasons that are there already are kept."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from ckpt_conformance.commands.run import Progress, add_run_arguments, exit_code, options_of

USAGE: Final = "CANDIDATE --update [OPTIONS]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "candidate", metavar="CANDIDATE", help="a name of `list candidates`, or pkg.module:attribute"
    )
    parser.add_argument(
        "--update", action="store_true", required=True, help="run the candidate, rewrite the file"
    )
    parser.add_argument(
        "--file", type=Path, default=Path("conformance.toml"), help="conformance.toml by default"
    )
    add_run_arguments(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Run the candidate without the file's expectations, and rewrite the file."""
    from ckpt_conformance.expectations import read_expectations, render, updated
    from ckpt_conformance.report.storage import write_whole
    from ckpt_conformance.standard.registry import requirements
    from ckpt_conformance.suite.launch import plan, verify

    file = arguments.file.absolute()
    old = read_expectations(file, {made.id for made in requirements()}) if file.exists() else {}
    _refuse_unwritable(file)
    options = options_of(arguments, None)
    ready = plan(arguments.candidate, options, report=None, workers=arguments.n)
    progress = Progress(len(options.chosen()))
    outcome = verify(ready, progress)
    progress.end()
    if outcome.faults or outcome.run.interrupted:
        print(f"{arguments.file} is left as it was: the run is not whole")
        return exit_code(outcome)
    new = updated(old, outcome.run.findings)
    write_whole(file, render(new))
    added, gone = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    print(f"{arguments.file}: {added} new, {gone} no longer fail, {len(new) - added} as before")
    if added:
        print("say why where it says `not yet explained`")
    print(f"next: ckpt-conformance run {arguments.candidate} --expect {arguments.file}")
    return 0


def _refuse_unwritable(file: Path) -> None:
    from ckpt_conformance.expectations import ExpectationsError

    if not os.access(file.parent, os.W_OK) or file.is_dir():
        raise ExpectationsError(f"{file} cannot be written; name another with --file")
