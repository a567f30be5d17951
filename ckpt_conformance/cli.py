"""The command line: `ckpt-conformance COMMAND`. Each command is a module of `ckpt_conformance.commands`."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from ckpt_conformance import __version__
from ckpt_conformance.near import did_you_mean

COMMANDS: Final[Mapping[str, str]] = {
    "run": "verify a candidate and say what fails, and why",
    "init": "write a commented candidate file for a function, and a tox snippet",
    "list": "list the candidates that have a name, or the requirements",
    "report": "render a saved report as text, HTML, Markdown or SARIF",
    "explain": "say what a requirement asks for, why, and how to meet it",
    "fuzz": "look for differences from the plain run with generated programs",
    "bench": "measure time and memory beside no checkpointing and torch's own",
    "matrix": "verify published implementations and render them all on one page",
    "expect": "write down which failures are known, with reasons",
}
"""The name of each command, which is its module's too, to what it does."""

CANNOT_START: Final = 2
"""The exit code where the user has something to mend: bad input."""

FAULT: Final = 3
"""The exit code where we are at fault; an uncaught exception would end with 1, as if it were a verdict."""

_EXAMPLES: Final = """\
examples:
  ckpt-conformance run                         verify the bundled reference
  ckpt-conformance run torch-nonreentrant      verify a published implementation
  ckpt-conformance run my.module:checkpoint    verify your own
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0 conforms, 1 does not, 2 cannot be started, 3 a fault in the suite.
    """
    # torch's word on every start without NumPy, which nothing here needs; it stood above our one line
    warnings.filterwarnings("ignore", "Failed to initialize NumPy", UserWarning)
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else ""
    if name not in COMMANDS:
        return _without_command(given)
    command: Any = importlib.import_module(f"ckpt_conformance.commands.{name}")
    parser = argparse.ArgumentParser(
        f"ckpt-conformance {name}",
        usage=f"ckpt-conformance {name} {command.USAGE}",
        description=command.__doc__.split("\n")[0],
        formatter_class=partial(argparse.HelpFormatter, max_help_position=28),
    )
    command.add_arguments(parser)
    try:
        return int(command.execute(parser.parse_args(given[1:])))
    except BrokenPipeError:
        # whoever read our output has seen enough; nothing may be written to it at exit either
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        print("ckpt-conformance: interrupted", file=sys.stderr)
        return CANNOT_START
    except Exception as error:  # noqa: BLE001 - whatever it is, it is no verdict on the candidate
        if not _is_bad_input(error):
            traceback.print_exc()
            return FAULT
        print(f"ckpt-conformance: error: {error}", file=sys.stderr)
        return CANNOT_START


def _without_command(given: Sequence[str]) -> int:
    """Help, the version, or one line about what is no command."""
    if not given or given[0].startswith("-"):
        _parser().parse_args(given or ["--help"])
    hint = did_you_mean(given[0], COMMANDS) or "; see `ckpt-conformance --help`"
    print(f"ckpt-conformance: error: there is no command {given[0][:80]!r}{hint}", file=sys.stderr)
    return CANNOT_START


def _is_bad_input(error: Exception) -> bool:
    # imported here, since torch comes with it and `--help` is to be quick
    from ckpt_conformance.bench.workloads import WorkloadError
    from ckpt_conformance.fuzz.program import ProgramError
    from ckpt_conformance.report.explain import UnknownRequirementError
    from ckpt_conformance.suite.options import BAD_INPUT

    return isinstance(error, (*BAD_INPUT, UnknownRequirementError, WorkloadError, ProgramError))


def _parser() -> argparse.ArgumentParser:
    commands = "".join(f"  {name:<10}{told}\n" for name, told in COMMANDS.items())
    parser = argparse.ArgumentParser(
        "ckpt-conformance",
        usage="ckpt-conformance COMMAND [--help] ...",
        description="Verify implementations of activation checkpointing against a written standard.",
        epilog=f"commands:\n{commands}\n{_EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"ckpt-conformance {__version__}")
    return parser


if __name__ == "__main__":
    sys.exit(main())
