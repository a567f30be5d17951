"""Get at a candidate by what the user typed: `pkg.module:attr`, a catalog name, or an announced name."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Final

from torch import nn

from ckpt_conformance import catalog
from ckpt_conformance.candidate import Candidate, CandidateError, Style
from ckpt_conformance.near import did_you_mean

GROUP: Final = "ckpt_conformance.candidates"
"""The entry point group by which a library announces its own candidates."""

_OURS: Final = str(Path(__file__).parent)
_DISCARDING: Final = ("checkpoint", "discard_output_and_register_recompute")


def resolve(target: str, style: Style | None = None) -> Candidate:
    """The candidate that a user means.

    Args:
        target: `pkg.module:attr`, a name of the catalog, or a name that an installed library announces.
        style: The calling style, where looking at the object would tell wrongly.

    Raises:
        CandidateError: It cannot be had; one line that says what to do.
    """
    if ":" in target:
        return _from_module(target, style)
    entry = catalog.find(target)
    if entry is not None:
        return _from_catalog(entry, style)
    announced = {found.name: found for found in entry_points(group=GROUP)}
    if target in announced:
        return _announced(announced[target], style)
    raise CandidateError(_unknown(target, [*(known.name for known in catalog.entries()), *announced]))


def _from_module(target: str, style: Style | None) -> Candidate:
    module, _, attribute = target.partition(":")
    if not module or not attribute:
        raise CandidateError(f"candidate {target!r}: write it as pkg.module:attribute")
    found: Any = _import(target, module)
    for name in attribute.split("."):
        found = _attribute(target, found, name)
    return _guarded(target, lambda: as_candidate(found, target, style))


def _from_catalog(entry: catalog.Entry, style: Style | None) -> Candidate:
    if entry.missing:
        raise CandidateError(f"candidate {entry.name!r} needs {entry.distribution}: {entry.missing}")

    def load() -> Candidate:
        found = entry.load()
        return as_candidate(found if isinstance(found, Candidate) else found(), entry.name, style)

    return _guarded(entry.name, load)


def _announced(announced: EntryPoint, style: Style | None) -> Candidate:
    return _guarded(announced.name, lambda: as_candidate(announced.load(), announced.name, style))


def _unknown(target: str, names: list[str]) -> str:
    near = get_close_matches(target[:100], names, 3, 0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "`ckpt-conformance list candidates` shows all."
    return f"no candidate is called {target[:100]!r}; {hint} For your own write pkg.module:attribute."


def _import(target: str, module: str) -> Any:
    """Import a module as `python -m` would: the current directory comes first."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module}.".startswith(f"{error.name}."):
            hint = did_you_mean(error.name, _siblings(error.name))
            missing = f"there is no module {error.name!r}, neither in {here} nor installed{hint}"
            raise CandidateError(f"candidate {target!r}: {missing}") from error
        raise CandidateError(f"candidate {target!r}: {in_one_line(error)}") from error
    except (Exception, SystemExit) as error:
        raise CandidateError(
            f"candidate {target!r}: importing {module} raised {in_one_line(error)}"
        ) from error


def _siblings(module: str) -> list[str]:
    """The modules next to where one would be: in its package, or in the current directory."""
    package = module.rpartition(".")[0]
    folders = getattr(sys.modules.get(package), "__path__", ()) if package else (Path.cwd(),)
    inside = (path for folder in folders for path in Path(folder).iterdir())
    found = (path.stem for path in inside if path.suffix == ".py" or (path / "__init__.py").is_file())
    return [f"{package}.{name}".lstrip(".") for name in found]


def _attribute(target: str, owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        hint = did_you_mean(name, [known for known in dir(owner) if not known.startswith("_")])
    raise CandidateError(f"candidate {target!r}: {getattr(owner, '__name__', owner)} has no {name!r}{hint}")


def _guarded(target: str, make: Callable[[], Candidate]) -> Candidate:
    """Run code of the candidate's own, and say what it raised in one line."""
    try:
        return make()
    except CandidateError:
        raise
    except (Exception, SystemExit) as error:
        raise CandidateError(f"candidate {target!r}: making it raised {in_one_line(error)}") from error


def in_one_line(error: BaseException) -> str:
    """An error of the candidate's in one line, with the place outside this package where it arose."""
    text = type(error).__name__
    with contextlib.suppress(Exception):
        text += f": {' '.join(str(error).split())[:300]}"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code.co_filename.startswith(("<frozen", _OURS)):
        return text
    return f"{text} ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"


def as_candidate(found: Any, name: str, style: Style | None = None) -> Candidate:
    """Make a candidate of whatever a name led to, by looking at it.

    Args:
        found: A `Candidate`, a function annotated to give one, or a bare callable or class.
        name: What the report calls it, where it has no name of its own.
        style: The calling style, where looking would tell wrongly.

    Raises:
        CandidateError: It cannot be called.
    """
    if isinstance(found, Candidate):
        return found if style is None else replace(found, style=style)
    if _gives_candidate(found):
        return as_candidate(found(), name, style)
    style = style or style_of(found)
    if style is Style.DISCARDING and not isinstance(found, type) and hasattr(found, _DISCARDING[0]):
        # an object rather than what makes one: each use gets a copy of its own
        found = partial(copy.copy, found)
    if not callable(found):
        raise CandidateError(f"candidate {name!r} is of type {type(found).__name__}, which cannot be called")
    return Candidate(name=name, style=style, target=found)


def _gives_candidate(found: Any) -> bool:
    annotation = getattr(found, "__annotations__", {}).get("return")
    return inspect.isfunction(found) and annotation in {"Candidate", Candidate}


def style_of(found: Any) -> Style:
    """The calling style that an object looks like; a module wrapper looks like any function."""
    if all(hasattr(found, method) for method in _DISCARDING):
        return Style.DISCARDING
    if isinstance(found, type):
        if issubclass(found, nn.Module):
            return Style.WRAPPER
        if hasattr(found, "__enter__") and hasattr(found, "__exit__"):
            return Style.CONTEXT
    generates = inspect.isgeneratorfunction(inspect.unwrap(found)) if callable(found) else False
    return Style.CONTEXT if generates else Style.FUNCTION
