"""Write a commented candidate file for a function of yours, and a tox environment that verifies it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from ckpt_conformance.commands.run import add_style

USAGE: Final = "pkg.module:attribute [OPTIONS]"

CANDIDATE_FILE: Final = "conformance_candidate.py"
TOX_FILE: Final = "tox-conformance.ini"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("target", metavar="pkg.module:attribute",
                        help="the checkpoint function, or the class or context manager")  # fmt: skip
    parser.add_argument("--folder", metavar="DIR", type=Path, default=Path(),
                        help="where to write; the current directory by default")  # fmt: skip
    add_style(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Look at the function, write the two files, and say what to type next."""
    from ckpt_conformance.candidate import CandidateError, Style
    from ckpt_conformance.report.model import ReportError
    from ckpt_conformance.suite.launch import describe
    from ckpt_conformance.suite.starter import candidate_text, tox_text

    target, folder = arguments.target, arguments.folder
    if ":" not in target:
        raise CandidateError(f"name a function of your own as pkg.module:attribute, not {target[:100]!r}")
    places = [folder / CANDIDATE_FILE, folder / TOX_FILE]
    for place in places:
        if place.exists() or place.is_symlink():
            raise ReportError(f"{place} is there already and is left as it is; name another --folder")
    found = describe(target, Style(arguments.style) if arguments.style else None, "cpu")
    if found.candidate.name != target:
        raise CandidateError(f"{target} is a candidate already: ckpt-conformance run {target}")
    installable = any((folder / name).is_file() for name in ("pyproject.toml", "setup.py"))
    _create(places[0], candidate_text(target, found.candidate.style))
    _create(places[1], tox_text(places[0].stem, installable=installable))
    _say_what_next(places, found.trouble)
    return 0


def _create(place: Path, text: str) -> None:
    from ckpt_conformance.report.model import ReportError

    try:
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ReportError(f"{place} cannot be written: {error.strerror or error}") from error


def _say_what_next(places: list[Path], trouble: str | None) -> None:
    print(f"written: {places[0]} and {places[1]}")
    if trouble is not None:
        print(f"\nmend this first, in {places[0].name}: {trouble}")
    inside = "" if places[0].parent == Path() else f"cd {places[0].parent} && "
    print(f"\nnext, read the comments of {places[0].name}, then:")
    print(f"  {inside}ckpt-conformance run {places[0].stem}:CANDIDATE")
    print(f"or, in an environment of its own:\n  {inside}tox run -c {places[1].name}")
