"""The benchmark's results as a table, as JSON-able data, and as one chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from ckpt_conformance.bench.run import Line, Timing

MIB = 2**20
_HEADINGS = (
    "candidate", "forward ms", "backward ms", "step ms", "of plain", "peak MiB", "kept MiB", "floor MiB",
    "recomputes", "kernels",
)  # fmt: skip


def table(lines: Sequence[Line], layers: int) -> str:
    """A plain-text table; `layers` is how many regions one forward runs."""
    plain = lines[0]
    rows = [_HEADINGS, *(_cells(line, plain, layers) for line in lines)]
    widths = [max(len(row[column]) for row in rows if len(row) > 2) for column in range(len(_HEADINGS))]
    return "\n".join(_row(row, widths) for row in rows) + "\n"


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = row
    if len(rest) == 1:
        return f"{first.ljust(widths[0])}  {rest[0]}"
    numbers = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
    return "  ".join((first.ljust(widths[0]), *numbers))


def _cells(line: Line, plain: Line, layers: int) -> tuple[str, ...]:
    if line.step is None or line.memory is None or line.work is None:
        return line.candidate, f"not measured: {line.error}"
    return (
        line.candidate,
        _timing(line.forward),
        _timing(line.backward),
        _timing(line.step),
        f"{line.step.median / plain.step.median:.2f}" if plain.step else "",
        f"{line.memory.peak / MIB:.2f}",
        f"{line.memory.kept / MIB:.2f}",
        f"{line.memory.floor / MIB:.2f}",
        str(line.work.region_runs - layers),
        str(line.work.kernels),
    )


def _timing(timing: Timing | None) -> str:
    return "" if timing is None else f"{timing.median:.3f} ±{timing.spread / 2:.3f}"


def data(lines: Sequence[Line], **about: Any) -> dict[str, Any]:
    """The results as JSON-able data: times in milliseconds, memory in bytes."""
    return {"schema": 1, **about, "lines": [asdict(line) for line in lines]}


def chart(lines: Sequence[Line], title: str) -> str:
    """One self-contained SVG: for each candidate its step time and its peak, as shares of the largest."""
    drawn = [line for line in lines if line.step is not None and line.memory is not None]
    slowest = max((line.step.median for line in drawn if line.step), default=1.0)
    largest = max((line.memory.peak for line in drawn if line.memory), default=1)
    height = 60 + 44 * len(drawn)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" font-size="13"',
        ' font-family="sans-serif">',
        f'<rect width="760" height="{height}" fill="#fff"/>',
        f'<text x="10" y="22" font-weight="bold">{escape(title)}</text>',
        '<text x="210" y="42" fill="#2b6cb0">step time</text><text x="300" y="42" fill="#c05621">peak</text>',
    ]
    for number, line in enumerate(drawn):
        parts += _bars(line, 52 + 44 * number, slowest, largest)
    return "\n".join([*parts, "</svg>\n"])


def _bars(line: Line, top: int, slowest: float, largest: int) -> list[str]:
    assert line.step is not None
    assert line.memory is not None
    time_width = 420 * line.step.median / slowest
    peak_width = 420 * line.memory.peak / max(largest, 1)
    return [
        f'<text x="200" y="{top + 20}" text-anchor="end">{escape(line.candidate)}</text>',
        f'<rect x="210" y="{top}" width="{time_width:.1f}" height="14" fill="#2b6cb0"/>',
        f'<text x="{215 + time_width:.1f}" y="{top + 12}">{line.step.median:.2f} ms</text>',
        f'<rect x="210" y="{top + 17}" width="{peak_width:.1f}" height="14" fill="#c05621"/>',
        f'<text x="{215 + peak_width:.1f}" y="{top + 29}">{line.memory.peak / MIB:.1f} MiB</text>',
    ]
