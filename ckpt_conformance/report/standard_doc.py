"""`docs/standard.md`, generated from the registry: `python -m ckpt_conformance.report.standard_doc FILE`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from ckpt_conformance.candidate import CAPABILITIES
from ckpt_conformance.report.explain import LEVELS, whom
from ckpt_conformance.report.links import link_of
from ckpt_conformance.standard.registry import SPEC_VERSIONS, Requirement, requirements

_GENERATED: Final = """\
This page is generated from the requirements' own docstrings by
`python -m ckpt_conformance.report.standard_doc docs/standard.md`; do not edit it.
[Public reports that no requirement names](reports.md) are listed with the reason;
[the proof table](proof.md) shows that each requirement can fail."""
_CAPABILITIES: Final = """\
What a candidate may leave out by refusing clearly, before any damage. Declaring one turns a refusal into a
failure."""


def standard_markdown(standard: Iterable[Requirement]) -> str:
    """The whole standard as Markdown: levels, capabilities, then each requirement by family."""
    listed = list(standard)
    families = {name: list(group) for name, group in groupby(listed, key=lambda made: made.family)}
    parts = [
        f"# The standard, version {SPEC_VERSIONS[-1]}",
        _GENERATED,
        _introduction(listed),
        "\n".join(_contents(families.items())),
        "## Capabilities",
        _CAPABILITIES,
        "\n".join(f"- `{name}`: {text}" for name, text in CAPABILITIES.items()),
    ]
    for family, members in families.items():
        parts += [f"## {family}", *(part for made in members for part in _requirement(made))]
    return "\n\n".join(parts) + "\n"


def _introduction(listed: Sequence[Requirement]) -> str:
    levels = Counter(made.level for made in listed)
    lines = [
        f"{len(listed)} requirements, families in order of cause: where several fail, the first names it.\n"
    ]
    lines += [f"- **{level}** ({levels[level]}): {text}." for level, text in LEVELS.items()]
    return "\n".join(lines)


def _contents(families: Iterable[tuple[str, Sequence[Requirement]]]) -> Iterator[str]:
    yield "| family | requirements |\n| --- | --- |"
    for family, members in families:
        links = (f"[{made.id.partition('/')[2]}](#{_anchor(made.id)})" for made in members)
        yield f"| [{family}](#{family}) | {', '.join(links)} |"


def _anchor(id_: str) -> str:
    """The anchor that GitHub gives to a heading made of the id."""
    return id_.replace("/", "")


def _requirement(made: Requirement) -> Iterator[str]:
    yield f"### {made.id}"
    yield f"**{made.sentence}**"
    yield "\n".join(f"- {label}: {text}" for label, text in [*whom(made), ("source", _sources(made))])
    yield made.why
    yield f"*How:* {made.how}"


def _sources(made: Requirement) -> str:
    linked = ((source, link_of(source)) for source in made.sources)
    return ", ".join(f"[{source}]({link})" if link else source for source, link in linked)


def main(arguments: Sequence[str]) -> int:
    """Write the page to the file named, or to standard output."""
    page = standard_markdown(requirements())
    if arguments:
        Path(arguments[0]).write_text(page, encoding="utf-8")
    else:
        sys.stdout.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
