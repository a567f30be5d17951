"""The fingerprint: one short text for all leaks with the same cause, in every run and on every machine."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from ckpt_conformance.instruments.trace.walk import Hop

_LENGTH = 12
_RULES = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x"),
    (re.compile(r"\[-?\d+\]"), "[*]"),
    (re.compile(r"\d+"), "#"),
)
_REPEATED = re.compile(r"(\.[\w.\[\]*#]+?)\1+")


def normalized(text: str) -> str:
    """A path without what differs between runs: indices, ids, numbers, and how often a stretch repeats."""
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return _REPEATED.sub(r"\1", text)


def fingerprint(kind: str, text: str) -> str:
    """Twelve hexadecimal digits for a kind of leak and the holder's normalized path."""
    return digest(kind, normalized(text))


def digest(kind: str, text: str) -> str:
    """Twelve hexadecimal digits for a kind of leak and a text that is the same everywhere as it is."""
    return hashlib.sha256(f"{kind}\n{text}".encode()).hexdigest()[:_LENGTH]


def holder(hops: Iterable[Hop]) -> tuple[Hop, ...]:
    """The part of a path that a person can mend: all before the first reference that is C++'s own."""
    found: list[Hop] = []
    for one in hops:
        if one.native:
            break
        found.append(one)
    return tuple(found)
