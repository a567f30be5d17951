"""Verify published implementations, one after another, and render them all on one page."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ckpt_conformance.commands.numbers import seconds, whole

if TYPE_CHECKING:
    from ckpt_conformance.matrix.run import Row, Settings

_NONE_RAN: Final = 2

USAGE: Final = "[CANDIDATE ...] --report DIR [OPTIONS]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("candidates", nargs="*", metavar="CANDIDATE",
                        help="names of `list candidates`, or pkg.module:attribute; the catalog if none is "
                        "named")  # fmt: skip
    parser.add_argument("--report", metavar="DIR", type=Path, required=True,
                        help="where the page and each candidate's own report go")  # fmt: skip
    parser.add_argument("--environments", metavar="DIR", type=Path,
                        help="make environments for packages that clash there, and keep them")  # fmt: skip
    parser.add_argument("--python", metavar="NAME=PATH", action="append", default=[], type=_named_path,
                        help="the interpreter that runs a candidate or all of an environment")  # fmt: skip
    parser.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    parser.add_argument("-n", type=whole, default=2, metavar="N", help="how many worker processes (2)")
    parser.add_argument("--limit", type=seconds, default=900.0, metavar="S",
                        help="how many seconds one candidate may take (900)")  # fmt: skip
    parser.add_argument("--resume", action="store_true",
                        help="keep the reports that are there; run what has none")  # fmt: skip


def _named_path(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PATH")
    return name, Path(path)


def execute(arguments: argparse.Namespace) -> int:
    """Run the candidates and write the page; 0 where each of them could be run."""
    from datetime import UTC, datetime

    from ckpt_conformance.matrix.render import write
    from ckpt_conformance.matrix.run import run_all
    from ckpt_conformance.matrix.table import Matrix
    from ckpt_conformance.standard.registry import requirements

    began, clock = datetime.now(UTC), time.perf_counter()
    names = arguments.candidates or _published()
    settings = _settings(arguments, dict(arguments.python))
    rows = run_all(names, settings, _Progress(len(names)))
    seconds = time.perf_counter() - clock
    stamp = began.isoformat(timespec="seconds")
    if arguments.resume:
        seconds = sum(row.seconds for row in rows)
        stamp = min([stamp, *(row.run.started for row in rows if row.run is not None)])
    matrix = Matrix(rows, list(requirements()), _command(arguments), stamp, seconds)
    write(matrix, arguments.report)
    page = arguments.report / "matrix.html"
    print(f"\n{len(matrix.runs)} of {len(rows)} candidates in {seconds:.0f} s: {page}")
    return 0 if matrix.runs and all(row.run is not None for row in rows) else _NONE_RAN


def _published() -> list[str]:
    from ckpt_conformance.catalog import entries

    return [entry.name for entry in entries()]


def _settings(arguments: argparse.Namespace, pythons: Mapping[str, Path]) -> Settings:
    from ckpt_conformance.matrix.run import Settings
    from ckpt_conformance.report.storage import claim

    claim(arguments.report)
    return Settings(
        report=arguments.report.absolute(),
        pythons=pythons,
        environments=arguments.environments,
        device=arguments.device,
        workers=arguments.n,
        limit=arguments.limit,
        again=not arguments.resume,
    )


def _command(arguments: argparse.Namespace) -> str:
    given = ["ckpt-conformance", "matrix", *arguments.candidates]
    given += ["--environments", "DIR"] if arguments.environments else []
    given += ["--python", "NAME=PATH"] if arguments.python else []
    given += ["--resume"] if arguments.resume else []
    return shlex.join([*given, "--report", "DIR"])


class _Progress:
    """One line for each candidate, as it comes."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0

    def __call__(self, row: Row) -> None:
        self._done += 1
        told = (
            row.problem[:200] if row.run is None else ", ".join(f"{n} {v}" for v, n in row.run.counts.items())
        )
        print(f"[{self._done}/{self._total}] {row.name:<34} {row.seconds:5.0f} s  {told}")
        sys.stdout.flush()
