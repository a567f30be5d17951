"""Say what a requirement asks for, why it matters, and how a passing implementation meets it."""

from __future__ import annotations

import argparse
import sys
from typing import Final

USAGE: Final = "ID"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("id", metavar="ID", help="a requirement's id, such as views/offset-output")


def execute(arguments: argparse.Namespace) -> int:
    """Print the explanation."""
    from ckpt_conformance.report.explain import explain, find
    from ckpt_conformance.standard.registry import requirements

    sys.stdout.write(explain(find(arguments.id, list(requirements()))))
    return 0
