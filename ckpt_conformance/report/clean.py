"""Make text that came from a candidate harmless and short: it ends in terminals, CI logs and files.

A candidate's exception or `repr` may hold escape sequences, commands to a CI runner, lone surrogates, or a
megabyte. What these functions give is printable, valid UTF-8 and of bounded length.
"""

from __future__ import annotations

import re
from typing import Final

_RUNNER_COMMAND: Final = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_OLD_RUNNER_COMMAND: Final = re.compile(r"##(?=\w*\[)")


def harmless(text: str) -> str:
    """The text with its lines kept, without anything that a terminal or a CI runner would act upon.

    Control characters, escape sequences, invisible and right-to-left marks and lone surrogates become
    backslash escapes; `::error::` at the start of a line and `##[error]` anywhere are broken up with a space.
    """
    lines = text.replace("\r\n", "\n").replace("\t", "    ")
    shown = "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in lines)
    return _OLD_RUNNER_COMMAND.sub("## ", _RUNNER_COMMAND.sub(r"\1: ", shown))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def one_line(text: str, limit: int = 300) -> str:
    """The text as one harmless line of at most about `limit` characters."""
    return harmless(" ".join(shortened(text, 4 * limit).split()))[:limit]


def shortened(text: str, limit: int) -> str:
    """The text, or its beginning and end where it is longer than `limit` characters.

    A note between the two says how many characters are left out; it comes on top of the limit.
    """
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]} ... ({len(text) - limit} characters left out) ... {text[-tail:]}"
