"""Write reports so that none is ever broken, and read them as data only."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from ckpt_conformance.near import did_you_mean_file
from ckpt_conformance.report.model import ReportError, Run
from ckpt_conformance.report.validate import problem_of

REPORT: Final = "report.json"
"""The file of a report folder that holds the run."""
MARKER: Final = ".ckpt-conformance"
"""The file by which a report folder is known as ours."""
SCRIPTS: Final = "scripts"
"""The part of a report folder that holds the failures' scripts."""
_TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{16}\.tmp")
MOST_BYTES: Final = 64 * 2**20
"""No report that we write is anywhere near this size; what is larger is not read."""


def write_report(run: Run, folder: Path, files: Mapping[str, str] | None = None) -> Path:
    """Write the run as `report.json` into a folder, and other files with it.

    Every file is written completely under another name before the first takes its place: a full disk leaves
    the old report. Symbolic links inside the folder are replaced, never followed.

    Args:
        run: What to write.
        folder: New, empty, or written by an earlier run.
        files: Path within the folder, with `/`, to text; see `report.folder.report_files`.

    Returns:
        The path of `report.json`.

    Raises:
        ReportError: The folder is not ours, or cannot be written.
    """
    texts = dict(files or {}) | {REPORT: json_text(run.to_data())}
    write_files(texts, folder)
    with _failures_named(folder, "written"):
        _remove_old_scripts(folder, keep=texts.keys())
        _remove_left_temporaries(folder)
    return folder / REPORT


def json_text(data: Mapping[str, Any]) -> str:
    """Plain data as the text of a JSON file."""
    return json.dumps(data, indent=1, allow_nan=False) + "\n"


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write files into a report folder: all of them whole, or none.

    Raises:
        ReportError: The folder is not ours, or cannot be written.
    """
    with _failures_named(folder, "written"):
        claim(folder)
        _replace_all(folder, files)


def claim(folder: Path) -> None:
    """Make sure that a folder may be written to, making it if need be: it is new, empty, or ours.

    Call it before a long run, so that a folder that cannot be had costs no time.

    Raises:
        ReportError: It holds something else, or cannot be made or written to.
    """
    with _failures_named(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not _is_ours(folder):
            raise ReportError(
                f"the report folder {folder} holds something that no run wrote; name a new or an empty folder"
            )
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ReportError(f"the report folder {folder} is not writable; name another folder")
        if not _is_regular(folder / MARKER):
            _write(folder / MARKER, "Made by ckpt-conformance; its runs overwrite their files here.\n")


def _is_ours(folder: Path) -> bool:
    if _is_regular(folder / MARKER):
        return True
    with suppress(ReportError):
        return _is_regular(folder / REPORT) and read_report(folder / REPORT) is not None
    return False


def _is_regular(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISREG(path.lstat().st_mode)
    return False


def write_whole(file: Path, text: str) -> None:
    """Write a file whole or not at all: what was there stays until all of the new text is.

    Raises:
        OSError: It cannot be written.
    """
    _replace_all(file.parent, {file.name: text})


def _replace_all(folder: Path, texts: Mapping[str, str]) -> None:
    staged: list[tuple[Path, Path]] = []
    try:
        for name, text in texts.items():
            place = _place(folder, name)
            staged.append((_temporary_name(place), place))
            _write(staged[-1][0], text)
        while staged:
            Path.replace(*staged[0])
            staged.pop(0)
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)


def _remove_old_scripts(folder: Path, keep: Collection[str]) -> None:
    """Remove the scripts of earlier runs: they would tell of failures that are no more."""
    scripts = folder / SCRIPTS
    if scripts.is_symlink() or not scripts.is_dir():
        return
    for script in scripts.glob("*.py"):
        if f"{SCRIPTS}/{script.name}" not in keep and _is_regular(script):
            script.unlink()


def _remove_left_temporaries(folder: Path) -> None:
    """Remove what a run left that was killed while it wrote."""
    for left in folder.glob(".*.tmp"):
        if _TEMPORARY.fullmatch(left.name) and _is_regular(left):
            left.unlink()


def _place(folder: Path, name: str) -> Path:
    """Where a file of the folder goes; its parents are made, and are real folders, not links out of it."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
        raise ReportError(f"{name!r} is no path within a report folder")
    for depth in range(1, len(parts)):
        parent = folder.joinpath(*parts[:depth])
        parent.mkdir(exist_ok=True)
        if parent.is_symlink():
            raise ReportError(f"{parent} is a symbolic link out of the report folder; remove it")
    return folder.joinpath(*parts)


def _temporary_name(place: Path) -> Path:
    return place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_report(path: Path) -> Run:
    """Read the run that `report.json`, or the folder that holds it, describes.

    Raises:
        ReportError: There is no such file, it is too large, or it is no report of a known format.
    """
    if path.is_dir():
        path /= REPORT
    data = read_data(path)
    problem = problem_of(data)
    if problem is not None:
        raise ReportError(f"{path} is no report of a known format: {problem}")
    return Run.from_data(data)


def read_data(path: Path) -> Any:
    """What a JSON file holds, unchecked.

    Raises:
        ReportError: There is no such file, it is too large, or it is no JSON.
    """
    with _failures_named(path, "read"):
        return _load(path)


def _load(path: Path) -> Any:
    with path.open("rb") as file:
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise ReportError(f"{path} is no report: it is larger than {MOST_BYTES >> 20} MiB")
    try:
        return json.loads(
            raw, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_once_each
        )
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path} is no report: it is not JSON ({str(error)[:200]})") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:30]} is too large a number")
    return number


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object; what one reader takes for its entry must not be another's."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, number in Counter(name for name, _ in pairs).items() if number > 1)
        raise ValueError(f"{twice[:50]!r} is there twice")
    return found


@contextmanager
def _failures_named(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = did_you_mean_file(path) if what == "read" else ""
        raise ReportError(f"{path} cannot be {what}: {error.strerror or error}{hint}") from error
