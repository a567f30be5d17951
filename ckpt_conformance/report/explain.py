"""What `ckpt-conformance explain ID` says about a requirement."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from ckpt_conformance.candidate import CAPABILITIES
from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.links import link_of
from ckpt_conformance.report.proof import Fault, load_proof
from ckpt_conformance.standard.registry import ALL_STYLES, Level, Requirement

WIDTH: Final = 100

LEVELS: Final[Mapping[Level, str]] = {
    Level.MUST: "every candidate must do it; a failure means that it does not conform",
    Level.SHOULD: "good implementations do it; a failure is advisory",
    Level.MAY: "a candidate may leave it out by refusing clearly; silent damage is a failure all the same",
}
"""What each level means for a candidate."""


class UnknownRequirementError(LookupError):
    """No requirement has that id; the message is one line that names the nearest ones."""


def find(id_: str, standard: Sequence[Requirement]) -> Requirement:
    """The requirement of an id.

    Raises:
        UnknownRequirementError: There is none; the message names near misses.
    """
    found = next((made for made in standard if made.id == id_), None)
    if found is None:
        raise UnknownRequirementError(unknown_id(id_, [made.id for made in standard]))
    return found


def unknown_id(id_: str, ids: Sequence[str]) -> str:
    """One line that says that no requirement has this id, and which ones may be meant."""
    near = near_misses(id_, ids)
    hint = f"did you mean {', '.join(near)}?" if near else "`ckpt-conformance list requirements` shows all"
    return f"no requirement {one_line(id_, 80)!r}; {hint}"


def near_misses(id_: str, ids: Sequence[str], most: int = 3) -> list[str]:
    """The ids that are most like a wrong one: the id as a whole, its part after the slash, or its family."""
    wanted = id_[:200].lower().replace("_", "-")
    if wanted in ids:
        return [wanted]
    tails = {known.partition("/")[2]: known for known in ids}
    near = get_close_matches(wanted, ids, most, 0.6)
    near += [tails[tail] for tail in get_close_matches(wanted.rpartition("/")[2], list(tails), most, 0.6)]
    near += [known for known in ids if wanted and known.partition("/")[0] == wanted.strip("/")]
    return list(dict.fromkeys(near))[:most]


def explain(requirement: Requirement, proof: Sequence[Fault] | None = None) -> str:
    """All there is to say about a requirement, as text that ends in a newline.

    Its sentence, whom it binds, why it matters, how a passing implementation does it, where it comes from,
    and which miniatures break it.

    Args:
        requirement: The requirement.
        proof: What the miniatures are wrong about; None for what the package brings.
    """
    known = load_proof() if proof is None else proof
    # the one whose fault it names before those that fail it too
    broken_by = sorted(
        (fault for fault in known if requirement.id in fault.breaks),
        key=lambda fault: fault.breaks.index(requirement.id),
    )
    blocks = [
        requirement.id,
        _filled(requirement.sentence),
        "\n".join(f"{label + ':':<12}{text}" for label, text in whom(requirement)),
        "Why it matters\n" + _filled(requirement.why, "  "),
        "How a passing implementation does it\n" + _filled(_capital(requirement.how), "  "),
        "Where it comes from\n" + "\n".join(f"  {_source(source)}" for source in requirement.sources),
    ]
    if broken_by:
        shown = (_filled(f"{one.miniature}: {one.says}", "  ") for one in broken_by)
        blocks.append(
            "What breaks it (miniatures: small candidates, each wrong in one way)\n" + "\n".join(shown)
        )
    return "\n\n".join(blocks) + "\n"


def listed(standard: Sequence[Requirement]) -> str:
    """Requirements with their level and sentence each, and how many they are, as text."""
    lines = []
    for made in standard:
        lines.append(f"{made.level:<7}{made.id}{'  (--level full)' if made.full else ''}")
        lines.append(textwrap.fill(made.sentence, WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7))
    return "\n".join([*lines, f"{len(standard)} requirements"]) + "\n"


def whom(requirement: Requirement) -> Iterator[tuple[str, str]]:
    """Whom the requirement binds, as labels and texts."""
    yield "level", f"{requirement.level}: {LEVELS[requirement.level]}"
    yield "since", requirement.since
    if requirement.capability is not None:
        yield "capability", f"{requirement.capability}: {CAPABILITIES[requirement.capability]}"
    if requirement.styles != ALL_STYLES:
        yield "styles", ", ".join(sorted(requirement.styles))
    if requirement.devices != {"cpu", "cuda"}:
        yield "devices", ", ".join(sorted(requirement.devices))
    if requirement.full:
        yield "run", "with --level full only"
    if requirement.slow is not None:
        yield "slow", requirement.slow


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _filled(text: str, margin: str = "") -> str:
    """Paragraphs filled to the width, each keeping its own lines where it is a list."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    filled = (
        textwrap.fill(part, WIDTH, initial_indent=margin, subsequent_indent=margin) for part in paragraphs
    )
    return "\n\n".join(filled)


def _source(source: str) -> str:
    link = link_of(source)
    return source if link in {None, source} else f"{source}  {link}"
