"""The path of a leak as a drawn graph, by the optional extra `picture`; as plain text where it is missing."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from ckpt_conformance.leaks.model import Leak
from ckpt_conformance.report.clean import one_line

_LABEL: Final = 48
_COMMAND: Final = "graphviz-pure"
_SECONDS: Final = 20


def picture(leak: Leak) -> str | None:
    """A data address of an SVG image of the path, from the root to the tensor; None without the extra."""
    program = _program()
    if program is None:
        return None
    drawn = subprocess.run(  # noqa: S603 - our own program, and text that it only draws
        [program, "-Tsvg"], input=dot(leak).encode(), capture_output=True, timeout=_SECONDS, check=False
    )
    if drawn.returncode:
        return None
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.stdout).decode('ascii')}"


def _program() -> str | None:
    """The command that the extra installs: next to Python, or on the search path."""
    return shutil.which(_COMMAND, path=str(Path(sys.executable).parent)) or shutil.which(_COMMAND)


def dot(leak: Leak) -> str:
    """The path as a graph in the DOT language; suspect references are thick, native ones dashed."""
    names = [f"{leak.root} {leak.root_name}".strip(), *(step.type for step in leak.steps)]
    lines = [f"n{at} [label={_quoted(name)}];" for at, name in enumerate(names)]
    for at, step in enumerate(leak.steps):
        style = "dashed" if step.native else "bold" if step.suspect else "solid"
        tone = "#c62828" if step.suspect else "#555555"
        shown = _quoted(step.label, margin="   ")
        lines.append(f'n{at} -> n{at + 1} [label={shown}, style={style}, color="{tone}"];')
    head = 'rankdir=TB; bgcolor=white; node [shape=box, fontname="sans-serif", fontsize=11]; '
    return f'digraph {{ {head} edge [fontname="sans-serif", fontsize=10];\n' + "\n".join(lines) + "\n}\n"


def _quoted(text: str, margin: str = "") -> str:
    shown = one_line(text, _LABEL).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{margin}{shown}{margin}"'
