"""The chart of bytes per step as inline SVG; colours come from the page's style."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from ckpt_conformance.instruments.growth import Growth

_WIDTH: Final = 640
_HEIGHT: Final = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 12, 14, 34
_MOST_LABELS: Final = 12
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def size(number: float) -> str:
    """Bytes for a person: `1.5 KiB`."""
    unit = 0
    while abs(number) >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} B" if unit == 0 else f"{number:.3g} {_UNITS[unit]}"


@dataclass(frozen=True, slots=True)
class _Scale:
    steps: int
    low: int
    high: int

    def x(self, step: float) -> float:
        room = _WIDTH - _LEFT - _RIGHT
        return _LEFT + room * (step - 0.5) / self.steps

    def y(self, level: float) -> float:
        room = _HEIGHT - _TOP - _BOTTOM
        return _HEIGHT - _BOTTOM - room * (level - self.low) / (self.high - self.low)


def bytes_chart(growth: Growth) -> Markup:
    """The levels of bytes after each step, the warm-up shaded."""
    levels = growth.levels
    spread = max(levels) - min(levels)
    # levels that do not move are shown above zero, as their own neighbourhood has no other marks
    low = max(0, min(levels) - spread // 4) if spread else 0
    scale = _Scale(len(levels), low, max(levels) + max(1, spread // 8 if spread else max(levels) // 4))
    told = f"Live bytes after each of {len(levels)} steps: {', '.join(map(str, levels))}"
    parts = [*_warmup(scale, growth.warmup), *_axis(scale), *_series(scale, levels)]
    opening = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(told)}">'
    return Markup(f"{opening}{''.join(parts)}</svg>")  # noqa: S704 - numbers, and escaped text


def _warmup(scale: _Scale, warmup: int) -> Iterator[str]:
    end = scale.x(warmup + 0.5)
    height = _HEIGHT - _TOP - _BOTTOM
    yield f'<rect class="warm" x="{_LEFT}" y="{_TOP}" width="{end - _LEFT:.1f}" height="{height}"/>'
    yield f'<text x="{_LEFT + 4}" y="{_TOP + 14}">warm-up</text>'


def _axis(scale: _Scale) -> Iterator[str]:
    floor = _HEIGHT - _BOTTOM
    yield f'<path class="axis" d="M{_LEFT} {_TOP}V{floor}H{_WIDTH - _RIGHT}"/>'
    for level in (scale.low, (scale.low + scale.high) / 2, scale.high):
        y = scale.y(level)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield f'<text class="end" x="{_LEFT - 6}" y="{y + 4:.1f}">{size(level)}</text>'
    every = -(-scale.steps // _MOST_LABELS)
    for step in range(1, scale.steps + 1, every):
        yield f'<text class="mid" x="{scale.x(step):.1f}" y="{floor + 16}">{step}</text>'
    yield f'<text class="mid" x="{(_LEFT + _WIDTH) / 2:.0f}" y="{_HEIGHT - 3}">step</text>'


def _series(scale: _Scale, levels: Sequence[int]) -> Iterator[str]:
    points = [(scale.x(step), scale.y(level)) for step, level in enumerate(levels, 1)]
    yield f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
    for (x, y), (step, level) in zip(points, enumerate(levels, 1), strict=True):
        told = f"<title>step {step}: {level} bytes</title>"
        yield f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4">{told}</circle>'
