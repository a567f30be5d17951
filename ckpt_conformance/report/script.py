"""Write a failing requirement out as a script that needs torch and the candidate alone."""

from __future__ import annotations

import ast
import platform
import sys
import textwrap
from collections.abc import Iterator
from typing import Final

import torch

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.report.bundle import Bundle, NoScriptError
from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.expression import expression, reference
from ckpt_conformance.report.record import facts
from ckpt_conformance.report.source import module_source
from ckpt_conformance.standard.evidence import Violation
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import Requirement

__all__ = ["NoScriptError", "script_for"]

_CATALOG: Final = "ckpt_conformance.catalog."

_MAIN: Final = '''\
def main() -> int:
    """Check the requirement and say what came of it."""
    try:
        {check}(CANDIDATE, {lab}(device={device}))
    except {violation} as wrong:
        print(wrong.summary, f"expected: {{wrong.expected}}", f"found:    {{wrong.found}}", sep="\\n")
        print(*wrong.trace, sep="\\n")
    except Exception as error:
        print("the candidate raised", "expected: no error", sep="\\n")
        print(f"found:    {{type(error).__name__}}: {{error}}")
    else:
        print("not reproduced: the requirement holds")
        return 0
    print("reproduced")
    return 1


if __name__ == "__main__":
    {sys}.exit(main())
'''


def script_for(
    requirement: Requirement, candidate: Candidate, *, target: str | None = None, device: str = "cpu"
) -> str:
    """A stand-alone script that holds one candidate to one requirement.

    It prints what was expected and found, and ends with exit code 1 where the failure shows, 0 where it does
    not.

    Args:
        requirement: What fails.
        candidate: What fails it.
        target: How the user named the candidate (`pkg.module:attr`): the last way to get at one whose
            function cannot be imported by itself.
        device: Where the requirement runs.

    Raises:
        NoScriptError: The requirement or the candidate exists only at run time; the message says why.
    """
    bundle = Bundle()
    names = {
        "sys": bundle.import_("sys"),
        "device": expression(bundle, torch.device(device)),
        "check": reference(bundle, requirement.check),
        "lab": reference(bundle, Lab),
        "violation": reference(bundle, Violation),
    }
    made = f"CANDIDATE = {_candidate(bundle, candidate, target)}"
    parts = [
        _header(requirement, candidate, device),
        "from __future__ import annotations",
        bundle.imports(),
        f"\n{bundle.definitions()}\n",
        f"{made}\n",
        _MAIN.format(**names),
    ]
    script = "\n\n".join(parts)
    ast.parse(script)
    return script


def _header(requirement: Requirement, candidate: Candidate, device: str) -> str:
    told = facts(candidate)
    place = f"torch {torch.__version__}, Python {platform.python_version()}, {device}"
    text = f"""Reproduces {requirement.id} on {told.name}.

{textwrap.fill(requirement.sentence, 100)}

Seen with {told.distribution or "a candidate of no distribution"}; {place}.
Needs torch and the candidate alone. Run it with Python; the exit code is 1 where the failure shows, else 0.
"""
    return '"""' + text.replace("\\", "\\\\").replace('"""', "'''") + '"""'


def _candidate(bundle: Bundle, candidate: Candidate, target: str | None) -> str:
    """What makes the candidate: a catalog entry with its set-up, or a new candidate around its function."""
    entry = next(_catalog_entries(candidate), None)
    if entry is not None:
        module, name, call = entry
        return f"{bundle.take(module, name)}{call}"
    try:
        made = expression(bundle, candidate.target)
    except NoScriptError:
        module, colon, name = (target or "").partition(":")
        if not colon or not name.isidentifier():
            raise
        made = bundle.import_(module, name)
        if isinstance(getattr(sys.modules.get(module), name, None), Candidate):
            return made
    return _candidate_around(bundle, candidate, made)


def _candidate_around(bundle: Bundle, candidate: Candidate, target: str) -> str:
    arguments = {"name": repr(one_line(candidate.name)), "style": expression(bundle, candidate.style)}
    if candidate.capabilities:
        arguments["capabilities"] = f"frozenset({sorted(candidate.capabilities)})"
    lines = [f"    {name}={value},\n" for name, value in (arguments | {"target": target}).items()]
    return f"{reference(bundle, Candidate)}(\n{''.join(lines)})"


def _catalog_entries(candidate: Candidate) -> Iterator[tuple[str, str, str]]:
    """Module, name, and `()` where it is a function, of what made the candidate, if the catalog did."""
    for module in [name for name in sys.modules if name.startswith(_CATALOG)]:
        for statement in module_source(module).statements:
            if isinstance(statement.node, ast.FunctionDef) and _makes(statement.node, candidate):
                yield module, statement.node.name, "()"
            yield from ((module, name, "") for name in statement.names if _is(module, name, candidate))


def _is(module: str, name: str, candidate: Candidate) -> bool:
    value = getattr(sys.modules[module], name, None)
    return (
        isinstance(value, Candidate) and value.target is candidate.target and value.style is candidate.style
    )


def _makes(function: ast.FunctionDef, candidate: Candidate) -> bool:
    """Whether a function of the catalog, which takes nothing, gives a candidate of that name."""
    takes_nothing = not any(isinstance(part, ast.arg) for part in ast.walk(function.args))
    names = [
        keyword.value.value
        for keyword in ast.walk(function)
        if isinstance(keyword, ast.keyword)
        and keyword.arg == "name"
        and isinstance(keyword.value, ast.Constant)
    ]
    return takes_nothing and names == [candidate.name]
