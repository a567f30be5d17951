"""Say what a requirement asks for, why it matters, and how it is met; or list those of a family."""

from __future__ import annotations

import argparse
import sys
from typing import Final

USAGE: Final = "ID|FAMILY"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "id", metavar="ID", help="a requirement's id, such as views/offset-output, or a family's name"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    from ckpt_conformance.report.explain import explain, find, listed
    from ckpt_conformance.standard.registry import requirements

    standard = list(requirements())
    family = [made for made in standard if made.family == arguments.id]
    sys.stdout.write(listed(family) if family else explain(find(arguments.id, standard)))
    return 0
