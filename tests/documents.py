"""What our documents show, for tests of it; as a module, this copies the matrix's rows to the README."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PUBLISHED = (
    "reference", "reference-discard", "torch-nonreentrant", "torch-reentrant", "megatron", "megatron-discard",
    "deepspeed", "fairscale", "transformers-nonreentrant", "unsloth",
)  # fmt: skip
"""The candidates that the README shows."""
ROOT = Path(__file__).parents[1]
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        heading: The heading that it stands under.
        language: What is said behind the fence.
        text: What is in it.
    """

    heading: str
    language: str
    text: str


def blocks(name: str) -> Iterator[Block]:
    """The code blocks of a document, named from the repository's root, in order."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for found in _FENCED.finditer(text):
        headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", text[: found.start()]), re.MULTILINE)
        yield Block(headings[-1] if headings else "", found[1], found[2])


def block(name: str, heading: str, language: str) -> str:
    """The text of the one block of that language under that heading."""
    (found,) = (one.text for one in blocks(name) if (one.heading, one.language) == (heading, language))
    return found


def published_rows() -> list[str]:
    """The README's table of published implementations, from docs/matrix.md."""
    lines = (ROOT / "docs" / "matrix.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    first: dict[str, list[str]] = {}
    for row in cells:
        first.setdefault(row[0], row[:5])
    return [f"| {' | '.join(first[name])} |\n" for name in PUBLISHED]


def main() -> None:
    """Bring the README's table up to date."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    start = text.index(f"| {PUBLISHED[0]} |")
    end = text.index("\n\n", start) + 1
    readme.write_text(text[:start] + "".join(published_rows()) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
