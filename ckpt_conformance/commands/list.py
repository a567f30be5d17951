"""List the candidates that have a name, or the requirements of the standard."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Final

_WIDTH = 110

USAGE: Final = "candidates|requirements"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("what", choices=["candidates", "requirements"])


def execute(arguments: argparse.Namespace) -> int:
    """Print the list."""
    lines = _candidates() if arguments.what == "candidates" else _requirements()
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _candidates() -> Iterator[str]:
    from ckpt_conformance.catalog import entries
    from ckpt_conformance.resolve import GROUP

    told = [(entry.name, f"not installed: {entry.missing}" if entry.missing else "") for entry in entries()]
    told += [
        (announced.name, f"announced by {announced.dist.name if announced.dist else announced.value}")
        for announced in entry_points(group=GROUP)
    ]
    width = max(len(name) for name, _ in told)
    for name, remark in told:
        yield f"{name:<{width}}  {remark}".rstrip()


def _requirements() -> Iterator[str]:
    from ckpt_conformance.standard.registry import requirements

    standard = list(requirements())
    for made in standard:
        yield f"{made.level:<7}{made.id}{'  (--level full)' if made.full else ''}"
        yield from textwrap.wrap(made.sentence, _WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7)
    yield f"the standard has {len(standard)} requirements"
