"""What is expected to fail, and why: `conformance.toml`, and what it makes of a finding."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from ckpt_conformance.candidate import Expected
from ckpt_conformance.near import did_you_mean_file
from ckpt_conformance.report.explain import unknown_id
from ckpt_conformance.report.model import NONCONFORMING, Finding, Verdict

TABLE: Final = "expected"
"""The array of tables that the file consists of."""
KINDS: Final = ("bug", "unsupported", "flaky")
_KEYS: Final = ("id", "reason", "kind", "issue", "when")
_FAILING: Final = NONCONFORMING | {Verdict.ADVISORY}
_MOST_BYTES: Final = 1 << 20


class ExpectationsError(Exception):
    """Expectations that cannot be used; the message is one line that says what to do."""


def read_expectations(path: Path, ids: Collection[str]) -> dict[str, Expected]:
    """Read an expectations file.

    Args:
        path: A TOML file of `[[expected]]` tables: `id`, `reason`, and if wanted `kind`, `issue`, `when`.
        ids: The ids of the standard.

    Raises:
        ExpectationsError: It cannot be read, is malformed, or names a requirement that does not exist.
    """
    data = _load(path)
    unknown = sorted(data.keys() - {TABLE})
    entries = data.get(TABLE, [])
    if unknown or not isinstance(entries, list):
        what = f"unknown entry {unknown[0]!r}" if unknown else f"{TABLE!r} is no array of tables"
        raise ExpectationsError(f"{path}: {what}; the file consists of [[{TABLE}]] tables")
    found: dict[str, Expected] = {}
    for number, entry in enumerate(entries, 1):
        id_ = _known_id(f"{path}: [[{TABLE}]] number {number}", entry, ids)
        if id_ in found:
            raise ExpectationsError(f"{path}: {id_} is there twice; remove one")
        found[id_] = _expected(f"{path}: {id_}", entry)
    return found


def _load(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise ExpectationsError(f"{path} is larger than 1 MiB: it is no expectations file")
        return tomllib.loads(raw.decode())
    except OSError as error:
        said = f"{error.strerror or error}{did_you_mean_file(path)}"
        raise ExpectationsError(f"{path} cannot be read: {said}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ExpectationsError(f"{path} is no TOML file: {error}") from error


def _known_id(where: str, entry: object, ids: Collection[str]) -> str:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
        raise ExpectationsError(f'{where} lacks an id, such as id = "views/offset-output"')
    if entry["id"] not in ids:
        raise ExpectationsError(f"{where}: {unknown_id(entry['id'], sorted(ids))}")
    return str(entry["id"])


def _expected(where: str, entry: Mapping[str, Any]) -> Expected:
    unknown = sorted(entry.keys() - set(_KEYS))
    if unknown:
        raise ExpectationsError(f"{where} has an unknown key {unknown[0]!r}; known are {', '.join(_KEYS)}")
    wrong = [key for key, value in entry.items() if not isinstance(value, str)]
    if wrong:
        raise ExpectationsError(f"{where}: {wrong[0]} is no text")
    made = Expected(**{"reason": ""} | {key: value for key, value in entry.items() if key != "id"})
    check_expected(where, made)
    return made


def check_expected(where: str, expected: Expected) -> None:
    """Refuse an expectation that says nothing or cannot be understood.

    Raises:
        ExpectationsError: The reason is empty, the kind unknown, or `when` no version specifier.
    """
    if not expected.reason.strip():
        raise ExpectationsError(f"{where} lacks a reason: say why it fails, for the reader of the report")
    if expected.kind not in KINDS:
        raise ExpectationsError(f"{where}: kind {expected.kind!r} is none of {', '.join(KINDS)}")
    try:
        SpecifierSet(expected.when or "")
    except InvalidSpecifier:
        raise ExpectationsError(
            f'{where}: when = {expected.when!r} is no version specifier of torch, such as "<2.7"'
        ) from None


def check_all(where: str, expected: Mapping[str, Expected], ids: Collection[str]) -> None:
    """Refuse expectations, such as a candidate's own, that name no requirement or say nothing.

    Raises:
        ExpectationsError: One line that says which and what to do.
    """
    for id_, entry in expected.items():
        if id_ not in ids:
            raise ExpectationsError(f"{where}: {unknown_id(id_, sorted(ids))}")
        check_expected(f"{where}: {id_}", entry)


def holds_now(expected: Expected) -> bool:
    """Whether the expectation is about the torch that is here."""
    here = Version(torch.__version__).base_version
    return SpecifierSet(expected.when or "").contains(here, prereleases=True)


def settled(finding: Finding, expected: Mapping[str, Expected]) -> Finding:
    """The finding, once what was expected is taken into account.

    A failure that was expected becomes `expected`. A pass that was not expected becomes `failed`, unless the
    expectation is of kind `flaky`: a list of known faults that nobody shortens is worth nothing.
    """
    entry = expected.get(finding.requirement)
    if entry is None or not holds_now(entry):
        return finding
    if finding.verdict in _FAILING:
        said = f"{_reason(entry)}: {finding.summary}"
        return replace(finding, verdict=Verdict.EXPECTED, summary=said)
    if finding.verdict is Verdict.PASSED and entry.kind != "flaky":
        return replace(
            finding,
            verdict=Verdict.FAILED,
            summary="passed, although it is expected to fail",
            expected=f"a failure: {_reason(entry)}",
            found="a pass; remove it from the expectations",
        )
    return finding


def _reason(entry: Expected) -> str:
    return f"{entry.reason} ({entry.kind}{f', {entry.issue}' if entry.issue else ''})"


def updated(old: Mapping[str, Expected], findings: Collection[Finding]) -> dict[str, Expected]:
    """The expectations that fit what was found; entries that still hold keep every word.

    Args:
        old: What was expected so far.
        findings: What was found, unsettled: with no expectation applied.
    """
    found = {finding.requirement: finding for finding in findings}
    kept = {id_: entry for id_, entry in old.items() if _still_holds(entry, found.get(id_))}
    new = {
        id_: Expected(f"not yet explained: {finding.summary}")
        for id_, finding in found.items()
        if finding.verdict in NONCONFORMING and id_ not in kept
    }
    return kept | new


def _still_holds(entry: Expected, finding: Finding | None) -> bool:
    if finding is None or entry.kind == "flaky" or not holds_now(entry):
        return True
    return finding.verdict is not Verdict.PASSED


def render(expected: Mapping[str, Expected]) -> str:
    """The text of an expectations file."""
    return "\n".join("".join(_table(id_, entry)) for id_, entry in sorted(expected.items()))


def _table(id_: str, entry: Expected) -> Iterator[str]:
    yield f"[[{TABLE}]]\n"
    for key, value in {"id": id_, **{key: getattr(entry, key) for key in _KEYS[1:]}}.items():
        if value is not None:
            # JSON escapes what the basic strings of TOML have to have escaped, but for DEL
            text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
            yield f"{key} = {text}\n"
