"""What a mistyped name may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final

_MOST_FILES: Final = 10_000
"""A folder with more entries is not searched: the hint is not worth the wait."""


def did_you_mean(wanted: str, known: Iterable[str], most: int = 3) -> str:
    """`; did you mean a, b?` with the names that are most like the wanted one; empty where none is."""
    near = get_close_matches(wanted[:200], list(known), most)
    return f"; did you mean {', '.join(near)}?" if near else ""


def did_you_mean_file(path: Path) -> str:
    """The same for a file that is not there, with the names next to it."""
    try:
        if path.exists():
            return ""
        names = [entry.name for entry, _ in zip(path.parent.iterdir(), range(_MOST_FILES), strict=False)]
    except OSError:
        return ""
    return did_you_mean(path.name, names)
