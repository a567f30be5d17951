"""The known leaks of a project: a TOML file of fingerprints, each with a reason and a day it expires."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from ckpt_conformance.leaks.model import Leak, LeakReport

_MOST_BYTES: Final = 1 << 20


class BaselineError(Exception):
    """A baseline that cannot be read; the message is one line that says what to mend."""


@dataclass(frozen=True, slots=True)
class Known:
    """One known leak.

    Attributes:
        fingerprint: Which.
        reason: Why it is tolerated.
        expires: The last day on which it is; None for ever.
    """

    fingerprint: str
    reason: str
    expires: date | None = None


def load_baseline(path: str | Path) -> tuple[Known, ...]:
    """Read a baseline: tables `[[leak]]` of a `fingerprint`, a `reason` and maybe `expires = 2027-01-31`.

    Raises:
        BaselineError: The file cannot be read, or an entry lacks its fingerprint or reason.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise BaselineError(f"{path}: larger than 1 MiB, so no baseline")
        data = tomllib.loads(raw.decode())
    except (OSError, ValueError, RecursionError) as problem:
        raise BaselineError(f"{path}: {problem}") from problem
    entries = data.get("leak", [])
    if data.keys() - {"leak"} or not isinstance(entries, list):
        raise BaselineError(f"{path}: it consists of [[leak]] tables, and of nothing else")
    return tuple(_entry(path, entry) for entry in entries)


def _entry(path: str | Path, entry: Any) -> Known:
    if not isinstance(entry, Mapping):
        raise BaselineError(f"{path}: it consists of [[leak]] tables, and of nothing else")
    unknown = entry.keys() - {"fingerprint", "reason", "expires"}
    expires = entry.get("expires")
    texts = [entry.get(name) for name in ("fingerprint", "reason")]
    if unknown or not all(isinstance(text, str) and text for text in texts):
        raise BaselineError(f"{path}: a [[leak]] has a fingerprint, a reason and may have expires: {entry}")
    if expires is not None and type(expires) is not date:
        raise BaselineError(f"{path}: expires is a day without quotes, as in expires = 2027-01-31: {entry}")
    return Known(entry["fingerprint"], entry["reason"], expires)


def compare(report: LeakReport, known: tuple[Known, ...], today: date | None = None) -> LeakReport:
    """The report with leaks marked NEW or KNOWN, and with what is GONE; an expired entry knows nothing."""
    today = today or datetime.now(UTC).date()
    current = {entry.fingerprint: entry for entry in known if entry.expires is None or entry.expires >= today}
    leaks = tuple(
        leak.known(current[leak.fingerprint].reason) if leak.fingerprint in current else leak
        for leak in report.leaks
    )
    seen = {leak.fingerprint for leak in leaks}
    expired = tuple(
        f"the baseline's entry {entry.fingerprint} expired on {entry.expires}"
        for entry in known
        if entry.fingerprint in seen - current.keys()
    )
    gone = tuple(entry.fingerprint for entry in known if entry.fingerprint not in seen)
    return replace(report, leaks=leaks, gone=gone, notes=report.notes + expired)


def baseline_entry(leak: Leak) -> str:
    """The entry to paste into the baseline for a leak."""
    return f'[[leak]]\nfingerprint = "{leak.fingerprint}"\nreason = ""  # {leak.kind}: say why\n'
