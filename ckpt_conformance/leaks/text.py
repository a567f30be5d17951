"""The leak report as plain text, as `LeakError` says it."""

from __future__ import annotations

from collections.abc import Iterator

from ckpt_conformance.instruments.growth import Growth, Trend
from ckpt_conformance.leaks.baseline import baseline_entry
from ckpt_conformance.leaks.model import MEANING, Leak, LeakReport

TOP = 10
"""So many leaks are written out unless all are asked for."""


def as_text(report: LeakReport, *, every: bool = False) -> str:
    """The report, its verdict first.

    Args:
        report: What to write.
        every: Write out all leaks, not the ten largest alone.
    """
    return "\n".join(_lines(report, every=every))


def verdict(report: LeakReport) -> str:
    """One line: what a step leaves behind, or that it leaves nothing."""
    if not report.leaks:
        return f"no leak in {report.steps} steps ({report.warmup} of warm-up)"
    worst = report.leaks[0]
    amount = f"{report.per_step} bytes more" if report.per_step else "more objects"
    return f"every step keeps {amount}: {worst.kind}, {worst.holder}"


def _lines(report: LeakReport, *, every: bool) -> Iterator[str]:
    yield verdict(report)
    for name, growth in report.growth.items():
        if growth.trend is not Trend.FLAT:
            yield f"  {name}: {series(growth)}"
    shown = report.leaks if every else report.leaks[:TOP]
    for leak in shown:
        yield ""
        yield from leak_lines(leak)
    if len(shown) < len(report.leaks):
        yield f"and {len(report.leaks) - len(shown)} more"
    for fingerprint in report.gone:
        yield f"GONE {fingerprint}: take it out of the baseline"
    yield from (f"note: {note}" for note in report.notes)


def series(growth: Growth) -> str:
    """The levels after each step, warm-up in brackets, and what they come to."""
    early = " ".join(map(str, growth.levels[: growth.warmup]))
    late = " ".join(map(str, growth.levels[growth.warmup :]))
    rate = f", {growth.per_step:.6g} a step{' exactly' if growth.constant else ''}" if growth.leaks else ""
    return f"[{early}] {late}  {growth.trend}{rate}"


def leak_lines(leak: Leak) -> Iterator[str]:
    """One leak: kind, trace with the suspect references underlined, and its baseline entry."""
    yield f"{leak.status} {leak.fingerprint} {leak.kind}: {MEANING[leak.kind]}"
    if leak.reason:
        yield f"  reason: {leak.reason}"
    yield f"  {leak.objects} tensors, {leak.bytes} bytes, such as {leak.example}"
    yield f"  born in steps {', '.join(map(str, leak.born))}"
    yield f"  {leak.root} {leak.root_name}".rstrip()
    yield f"    {leak.trace}"
    if leak.trace.startswith(leak.holder):
        yield f"    {'~' * len(leak.holder)}"
    if leak.status == "NEW":
        yield from (f"  {line}" for line in baseline_entry(leak).splitlines())
