"""The leak report as plain text, as `LeakError` says it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_conformance.instruments.growth import Growth, Trend
from ckpt_conformance.instruments.types import TypeGrowth
from ckpt_conformance.leaks.baseline import baseline_entry
from ckpt_conformance.leaks.facts import Birth, Column, Remedy, TensorFacts
from ckpt_conformance.leaks.model import MEANING, Kind, Leak, LeakReport, Status

TOP = 10
"""So many leaks are written out unless all are asked for."""
NOT_RECORDED = "not recorded: births are noted in the steps after growth was first seen"


def as_text(report: LeakReport, *, every: bool = False) -> str:
    """The report, its verdict first.

    Args:
        report: What to write.
        every: Write out all leaks, not the ten largest alone.
    """
    return "\n".join(_lines(report, every=every))


def verdict(report: LeakReport) -> str:
    """One line: what a step leaves behind, or that it leaves nothing."""
    if len(report.late) == len(report.leaks):
        return f"no leak in {report.steps} steps ({report.warmup} of warm-up){_late(report)}"
    worst = report.leaks[0]
    amount = f"{report.per_step} bytes more" if report.per_step else "more objects"
    return f"every step keeps {amount}: {worst.kind}, {worst.holder}"


def _late(report: LeakReport) -> str:
    if not report.late:
        return ""
    size = sum(leak.bytes for leak in report.late)
    return f"; late: {size} bytes of each step are freed in the next, {report.late[0].holder}"


def _lines(report: LeakReport, *, every: bool) -> Iterator[str]:
    yield verdict(report)
    if report.command:
        yield f"  reproduce: {report.command}"
    for name, growth in report.growth.items():
        if growth.trend is not Trend.FLAT:
            yield f"  {name}: {series(growth)}"
    if report.types:
        yield f"  Python types that grew, by objgraph: {types_line(report.types)}"
    shown = report.leaks if every else report.leaks[:TOP]
    for leak in shown:
        yield ""
        yield from leak_lines(leak)
    if len(shown) < len(report.leaks):
        yield f"and {len(report.leaks) - len(shown)} more (-vv tells all)"
    if report.columns:
        yield ""
        yield "the same steps in other variants, live bytes after each:"
        yield from (f"  {column_line(column)}" for column in report.columns)
    if report.leaks:
        yield ""
        yield from unseen(report)
    for fingerprint in report.gone:
        yield f"GONE {fingerprint}: take it out of the baseline"
    yield from (f"note: {note}" for note in report.notes)


def series(growth: Growth) -> str:
    """The levels after each step, warm-up in brackets, and what they come to."""
    early = " ".join(map(str, growth.levels[: growth.warmup]))
    late = " ".join(map(str, growth.levels[growth.warmup :]))
    rate = f", {growth.per_step:.6g} a step{' exactly' if growth.constant else ''}" if growth.leaks else ""
    return f"[{early}] {late}  {growth.trend}{rate}"


def types_line(types: Iterable[TypeGrowth]) -> str:
    """The types that grew, and by how many objects in a step."""
    return ", ".join(f"{one.name} +{one.per_step:.6g} a step" for one in types)


def leak_lines(leak: Leak) -> Iterator[str]:
    """One leak: kind, trace with the suspect references underlined, facts, and its baseline entry."""
    yield f"{leak.status} {leak.fingerprint} {leak.kind}: {MEANING[leak.kind]}"
    if leak.reason:
        yield f"  reason: {leak.reason}"
    yield f"  {leak.root} {leak.root_name}".rstrip()
    if leak.trace:
        yield f"    {leak.trace}"
    if leak.holder and leak.trace.startswith(leak.holder):
        yield f"    {'~' * len(leak.holder)}"
    yield from (f"    {line}" for line in node_lines(leak))
    yield f"  {amount(leak)}{f', such as {leak.example}' if leak.example else ''} -> 1 leak"
    if leak.born:
        yield f"  born in steps {', '.join(map(str, leak.born))}"
    if leak.objects:
        yield from (f"  {line}" for line in birth_lines(leak.birth))
    if leak.facts is not None:
        yield f"  tensor: {facts_line(leak.facts)}"
    if leak.retained:
        yield "  kept by this alone, of the leaked memory (dominator tree):"
        yield from (f"    {one.bytes:>12} bytes  {one.what}" for one in leak.retained)
    if leak.remedies:
        yield "  tried in a child process:"
        yield from (f"    {remedy_line(one)}" for one in leak.remedies)
    if leak.status is Status.NEW and leak.kind is not Kind.LATE:
        yield "  to tolerate it, say why in the baseline:"
        yield from (f"    {line}" for line in baseline_entry(leak).splitlines())


def amount(leak: Leak) -> str:
    """How many tensors, on how much memory."""
    tensors = {0: "no tensor", 1: "1 tensor"}.get(leak.objects, f"{leak.objects} tensors")
    return f"{tensors}, {leak.bytes} bytes"


def node_lines(leak: Leak) -> Iterator[str]:
    """Each object of the trace that there is a verdict on; references that only C++ has are marked."""
    for step in leak.steps:
        if step.verdict or step.native:
            mark = "C++ " if step.native else "    "
            yield f"{mark}{step.label} ({step.type}){f': {step.verdict}' if step.verdict else ''}"


def birth_lines(birth: Birth | None) -> Iterator[str]:
    """Where memory was made, and the user's stack, runs of library lines folded."""
    if birth is None:
        yield f"birth: {NOT_RECORDED}"
        return
    where = f", in {birth.module}" if birth.module else ""
    region = f", in region {birth.region}, {birth.depth} deep" if birth.depth else ", in no region"
    yield f"birth: step {birth.step}, {birth.phase}{where}{region}, by {birth.operation}"
    yield from (f"  {line}" for line in folded(birth))


def folded(birth: Birth) -> Iterator[str]:
    """The stack of a birth: the user's lines, and how many library lines are between them."""
    library = 0
    for line in birth.stack:
        if line.library:
            library += 1
            continue
        if library:
            yield f"({library} lines of libraries)"
        library = 0
        yield f"{line.file}:{line.line} in {line.function}"
    if library:
        yield f"({library} lines of libraries)"


def facts_line(facts: TensorFacts) -> str:
    """The facts of a tensor."""
    view = f", view of {facts.view_of}" if facts.view_of else ", no view"
    sharing = (
        f"{facts.sharing} other leaked tensors share its memory" if facts.sharing else "memory not shared"
    )
    shape = "x".join(map(str, facts.shape)) or "scalar"
    version = f"version {facts.version} now (at saving: cannot be read)"
    return f"{facts.role}, {shape} {facts.dtype} on {facts.device}, {version}{view}, {sharing}"


def remedy_line(remedy: Remedy) -> str:
    """A remedy, and what it freed."""
    if remedy.freed is None:
        return f"{remedy.what}: not tried, {remedy.problem}"
    return f"{remedy.what}: frees {remedy.freed} bytes of what leaked"


def column_line(column: Column) -> str:
    """A variant, and what it kept."""
    if column.problem:
        return f"{column.name}: could not be run: {column.problem}"
    rate = f", {column.per_step} a step" if column.per_step else ""
    return f"{column.name}: {' '.join(map(str, column.levels))}  {column.trend}{rate}"


def unseen(report: LeakReport) -> Iterator[str]:
    """What was not seen: entries of the baseline, blind spots, cost."""
    used = sum(leak.status is Status.KNOWN for leak in report.leaks)
    yield f"baseline: {used} entries used, {len(report.gone)} unused"
    yield from (f"not seen: {one}" for one in report.blind)
    yield f"the guard took {report.seconds:.2f} s"
