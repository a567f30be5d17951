"""One kind of state, and words for what differs between two readings; harmless whatever the values are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LIMIT = 80
"""Characters of a value's repr that are shown."""


def safe_repr(value: object) -> str:
    """A short, printable, one-line repr; a value whose own repr raises is named by its type."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign repr may raise anything
        return f"<{type(value).__name__}>"
    text = "".join(char if char.isprintable() else "?" for char in text[: LIMIT + 1])
    return text if len(text) <= LIMIT else text[: LIMIT - 3] + "..."


def value_words(before: object, after: object) -> str:
    """`A became B`, or nothing where the two are equal or the same object."""
    same = before is after or (type(before) is type(after) and before == after)
    return "" if same else f"{safe_repr(before)} became {safe_repr(after)}"


def opaque_words(before: object, after: object) -> str:
    """For values that say nothing to a reader, such as a generator's state."""
    return "" if before == after else "moved"


def stack_words(before: Sequence[object], after: Sequence[object]) -> str:
    """Two stacks of objects, bottom first, compared by identity and named by their types."""
    if len(before) == len(after) and all(one is two for one, two in zip(before, after, strict=True)):
        return ""
    shown = ["[" + ", ".join(_named(entry) for entry in stack) + "]" for stack in (before, after)]
    return f"{shown[0]} became {shown[1]}" + (" (other objects)" if shown[0] == shown[1] else "")


def mapping_words(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> str:
    """Which keys were set, removed and changed; never the values, which may be secrets."""
    parts = {
        "set": [key for key in after if key not in before],
        "removed": [key for key in before if key not in after],
        "changed": [key for key in before if key in after and differ(before[key], after[key])],
    }
    return "; ".join(f"{listed(keys)} {verb}" for verb, keys in parts.items() if keys)


def lost_words(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> str:
    """Which keys were removed or have another object now; a late import adds keys, which is no loss."""
    names = [name for name, value in before.items() if after.get(name) is not value]
    return f"{listed(names)} removed or replaced" if names else ""


def differ(before: object, after: object) -> bool:
    """Whether two values differ; values that are neither text nor numbers are compared by identity."""
    if isinstance(before, str | int | float) and isinstance(after, str | int | float):
        return before != after
    return before is not after


def listed(keys: Sequence[Any]) -> str:
    """The first few, and how many more."""
    shown = ", ".join(str(key) for key in keys[:4])
    return f"{shown} and {len(keys) - 4} more" if len(keys) > 4 else shown


def _named(value: object) -> str:
    if value is None:
        return "nothing"
    device = getattr(value, "device", None) if type(value).__name__ == "DeviceContext" else None
    name = getattr(value, "__qualname__", None) or type(value).__name__
    return f"{name}({device})" if device is not None else str(name)


@dataclass(frozen=True, slots=True)
class Piece:
    """One kind of state.

    Attributes:
        name: What a person calls it.
        read: Gives its present value.
        put_back: Sets it to a value read before; None where that cannot be done.
        words: How a later value differs from an earlier one; empty where it does not.
    """

    name: str
    read: Callable[[], Any]
    put_back: Callable[[Any], None] | None
    words: Callable[[Any, Any], str] = value_words
