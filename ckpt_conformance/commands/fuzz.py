"""Look for differences from the plain run with generated programs.

Each difference is shrunk and written out as a script; exit code 0 none was found, 1 some were, 2 it could not
be started, as where no saved program runs here, or was interrupted, after telling what was found until then.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ckpt_conformance.commands.numbers import seconds, whole
from ckpt_conformance.commands.run import DEFAULT, add_style

if TYPE_CHECKING:
    from ckpt_conformance.candidate import Candidate
    from ckpt_conformance.fuzz.groups import Group
    from ckpt_conformance.fuzz.hunt import Catch
    from ckpt_conformance.fuzz.program import Program
    from ckpt_conformance.fuzz.worker import Worker

USAGE: Final = "[CANDIDATE] [OPTIONS]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "candidate", nargs="?", metavar="CANDIDATE", default=DEFAULT,
        help="a name of `list candidates`, or pkg.module:attribute; the bundled reference if none is named",
    )  # fmt: skip
    parser.add_argument("--examples", type=whole, metavar="N", default=1000,
                        help="how many programs to compare (1000)")  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="S", default=0, help="where the programs start (0)")
    parser.add_argument("--seconds", type=seconds, metavar="T", default=float("inf"),
                        help="stop after so long, shrinking included")  # fmt: skip
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR",
        help="replay the programs in DIR/corpus.jsonl first; add new ones there, with a script for each"
        " that no later hunt changes. A saved program is Python source that is run: replay only what you"
        " trust",
    )  # fmt: skip
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="cpu (the default) or cuda")
    add_style(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Hunt, and print what was caught."""
    from ckpt_conformance.candidate import CandidateError, Style

    if importlib.util.find_spec("hypothesis") is None:
        raise CandidateError("this needs hypothesis: python -m pip install 'ckpt-conformance[fuzz]'")
    from ckpt_conformance.fuzz.hunt import Catch
    from ckpt_conformance.fuzz.worker import Worker
    from ckpt_conformance.report.corpus import claim_corpus, read_corpus
    from ckpt_conformance.resolve import resolve
    from ckpt_conformance.suite.interrupts import terminable
    from ckpt_conformance.suite.options import device_named

    style = Style(arguments.style) if arguments.style else None
    candidate = resolve(arguments.candidate, style)
    saved = read_corpus(arguments.corpus) if arguments.corpus else []
    if arguments.corpus:
        claim_corpus(arguments.corpus)
    # asked through the driver, CUDA could not be used in the processes that run the programs
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    worker = Worker(lambda: candidate, device=device_named(arguments.device))
    caught = Catch()
    try:
        with terminable():
            caught = _replay(worker, saved)
            _hunt(arguments, worker, caught)
    except KeyboardInterrupt:
        # what was found until then is worth as much
        _show(caught, candidate, saved, arguments)
        raise
    finally:
        worker.close()
    _show(caught, candidate, saved, arguments)
    return 1 if caught.faults() else 0


def _replay(worker: Worker, saved: list[Program]) -> Catch:
    from ckpt_conformance.fuzz.hunt import replayed
    from ckpt_conformance.fuzz.program import ProgramError

    gc.freeze()  # what is loaded by now outlives the hunt, which makes much garbage of its own
    caught = replayed(worker, saved)
    if saved:
        print(f"{len(saved)} saved programs: {_line(caught)}", flush=True)
    if caught.useless and len(caught.useless) == len(saved):
        # a check that looked at nothing must not pass
        raise ProgramError(f"none of the saved programs could be compared: {caught.useless[0]}")
    return caught


def _hunt(arguments: argparse.Namespace, worker: Worker, caught: Catch) -> None:
    from ckpt_conformance.fuzz.hunt import hunt

    hunt(
        worker,
        examples=arguments.examples,
        start=arguments.seed,
        seconds=arguments.seconds,
        progress=lambda so_far: print(_line(so_far), flush=True),
        catch=caught,
    )


def _line(caught: Catch) -> str:
    others, useless = len(caught.groups) - len(caught.faults()), len(caught.useless)
    return (
        f"{caught.programs} programs in {caught.seconds:.0f} s: {len(caught.faults())} differences by cause,"
        f" {others} refusals and roundings"
        + (f"; {useless} could not be compared, the first since {caught.useless[0]}" if useless else "")
    )


def _show(caught: Catch, candidate: Candidate, saved: list[Program], arguments: argparse.Namespace) -> None:
    """Save the programs, and print what was caught, undisturbed by an interrupt."""
    from ckpt_conformance.report.corpus import write_corpus
    from ckpt_conformance.suite.interrupts import undisturbed

    with undisturbed():
        if arguments.corpus and caught.groups:
            write_corpus(arguments.corpus, saved, [group.program for group in caught.groups])
        scripts = [
            _show_group(number, group, candidate, arguments)
            for number, group in enumerate(caught.groups, start=1)
        ]
        print(f"\n{candidate.name}, seed {arguments.seed}: {_line(caught)}", flush=True)
        if arguments.corpus and (earlier := {*arguments.corpus.glob("*.py")}.difference(scripts)):
            print(f"{len(earlier)} other scripts in {arguments.corpus} are not of this hunt", flush=True)


def _show_group(
    number: int, group: Group, candidate: Candidate, arguments: argparse.Namespace
) -> Path | None:
    """Print one difference; of a fault, give the file of its script, or print that too."""
    kind = "difference" if group.difference.fault else "no fault, refused or rounded,"
    print(f"\n{kind} {number}, in {group.count} programs: {group.difference.aspect}")
    print(f"  {group.difference.detail}")
    print(f"  needs: {', '.join(sorted(group.cause)) or 'nothing beyond the simplest program'}")
    others = [f"{aspect} ({count})" for aspect, count in group.aspects.most_common()]
    if len(others) > 1:
        print(f"  seen as: {'; '.join(others)}")
    return _write_script(group, candidate, arguments) if group.difference.fault else None


def _write_script(group: Group, candidate: Candidate, arguments: argparse.Namespace) -> Path | None:
    from ckpt_conformance.report.corpus import write_script
    from ckpt_conformance.report.program_script import program_script, script_name

    options = {"target": arguments.candidate, "device": arguments.device}
    script = program_script(group.program, group.difference, candidate, **options)
    if arguments.corpus is None:
        sys.stdout.write(f"\n{script}")
        return None
    name = script_name(group.program, group.difference, **options)
    file = write_script(arguments.corpus, name, script)
    print(f"  script: {file}")
    return file
