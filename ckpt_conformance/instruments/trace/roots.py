"""Where a walk begins: modules, the frames that run, and the exception being handled."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import PurePath
from types import FrameType
from typing import Any, NamedTuple


class RootKind(StrEnum):
    """What keeps a path's first object alive."""

    MODULE = "module"
    FRAME = "frame"
    EXCEPTION = "exception being handled"
    THREAD_LOCAL = "thread-local"
    NATIVE = "only native references"


class Root(NamedTuple):
    """A place to begin from.

    Attributes:
        kind: What it is.
        name: How it is called: the module's name, or the frame's function.
        value: The object; of a frame, a copy of its locals.
    """

    kind: RootKind
    name: str
    value: Any


_OWN = ("ckpt_conformance.instruments", "ckpt_conformance.leaks")


def roots() -> list[Root]:
    """All roots of this moment, those of other threads included, the instruments' own frames left out."""
    found = [Root(RootKind.MODULE, name, module) for name, module in sorted(sys.modules.items()) if module]
    found += [Root(RootKind.FRAME, _name_of(frame), _locals_of(frame)) for frame in _frames()]
    handled = sys.exception()
    if handled is not None:
        found.append(Root(RootKind.EXCEPTION, type(handled).__qualname__, handled))
    return found


def _locals_of(frame: FrameType) -> dict[str, Any]:
    """A copy of a frame's locals; up to 3.12 the frame would keep one of its own, and them alive with it."""
    names = frame.f_locals
    copy = dict(names)
    if isinstance(names, dict):
        names.clear()
    return copy


def _frames() -> Iterator[FrameType]:
    """The running frames of functions; a module's own are its namespace, which is a root already."""
    for top in sys._current_frames().values():
        frame: FrameType | None = top
        while frame is not None:
            optimized = frame.f_code.co_flags & inspect.CO_OPTIMIZED
            if optimized and not is_own(frame):
                yield frame
            frame = frame.f_back


def is_own(frame: FrameType) -> bool:
    """Whether a frame is one of the instruments' own."""
    return str(frame.f_globals.get("__name__", "")).startswith(_OWN)


def _name_of(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname}() in {PurePath(code.co_filename).name}"
