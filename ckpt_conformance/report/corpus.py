"""A corpus: the folder in which what hunts found is kept, as programs to be replayed and as scripts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ckpt_conformance.fuzz.program import Program, ProgramError
from ckpt_conformance.report.model import ReportError
from ckpt_conformance.report.storage import write_whole

CORPUS: Final = "corpus.jsonl"
"""The file of the folder that holds the programs, one a line."""


def read_corpus(folder: Path) -> list[Program]:
    """The programs of a corpus, blank lines left out; none where there is no file yet.

    Raises:
        ProgramError: A line is no saved program, or the file cannot be read.
    """
    file = folder / CORPUS
    if not file.exists():
        return []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ProgramError(f"{file} cannot be read: {error}") from error
    numbered = enumerate(lines, start=1)
    return [_program(line, f"{file}, line {number}") for number, line in numbered if line.strip()]


def _program(line: str, place: str) -> Program:
    try:
        program = Program.from_json(line)
        program.compiled()
    except ProgramError as error:
        raise ProgramError(f"{place}: {error}") from error
    except (SyntaxError, ValueError) as error:
        raise ProgramError(f"{place}: no saved program: its source does not compile: {error}") from error
    return program


def claim_corpus(folder: Path) -> None:
    """Make the folder if need be, before a long hunt whose finds would have no place to go.

    Raises:
        ReportError: It cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(f"{folder} cannot be made: {error.strerror or error}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ReportError(f"the folder {folder} is not writable; name another folder")


def write_corpus(folder: Path, saved: Iterable[Program], found: Iterable[Program]) -> None:
    """Write the saved programs and after them what was found besides, all of it or nothing.

    A saved program stays when it shows no difference any more: it is what would show the fault again.

    Raises:
        ReportError: The file cannot be written.
    """
    lines = dict.fromkeys(program.to_json() for program in (*saved, *found))
    _write(folder / CORPUS, "".join(f"{line}\n" for line in lines))


def write_script(folder: Path, name: str, text: str) -> Path:
    """Write the script of a difference, unless it is there from an earlier hunt: somebody may have edited it.

    Returns:
        Its path.

    Raises:
        ReportError: The file cannot be written.
    """
    file = folder / name
    if not file.exists():
        _write(file, text)
    return file


def _write(file: Path, text: str) -> None:
    try:
        write_whole(file, text)
    except OSError as error:
        raise ReportError(f"{file} cannot be written: {error.strerror or error}") from error
