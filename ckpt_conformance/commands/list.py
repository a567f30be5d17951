"""List the candidates that have a name, or the requirements of the standard."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Final

USAGE: Final = "candidates|requirements"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("what", choices=["candidates", "requirements"])


def execute(arguments: argparse.Namespace) -> int:
    """Print the list."""
    if arguments.what == "candidates":
        sys.stdout.write("".join(f"{line}\n" for line in _candidates()))
        return 0
    from ckpt_conformance.report.explain import listed
    from ckpt_conformance.standard.registry import requirements

    sys.stdout.write(listed(list(requirements())))
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
