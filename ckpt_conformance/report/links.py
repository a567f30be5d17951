"""Where the sources of requirements are found."""

from __future__ import annotations

import re
from typing import Final

_REPORT: Final = re.compile(r"^([\w.-]+/[\w.-]+)#(\d+)$")


def link_of(source: str) -> str | None:
    """The address of a source: of a public report such as `pytorch/pytorch#14253`, or the source itself.

    None where it is neither a report nor an address.
    """
    report = _REPORT.match(source)
    if report is not None:
        return f"https://github.com/{report[1]}/issues/{report[2]}"
    return source if source.startswith("https://") else None
