"""What a leak report says of a leak besides its trace; each part is empty where it was not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """One tensor of a leak.

    Attributes:
        shape: Its shape.
        dtype: Its type of element.
        device: Where it is.
        version: Its version counter when it was looked at. That at saving cannot be read from Python.
        role: parameter, gradient, activation, leaf that requires grad, or tensor outside of any graph.
        view_of: The shape of the tensor that it is a view of; empty where it is none.
        sharing: How many other surviving tensors stand on the same memory.
    """

    shape: tuple[int, ...]
    dtype: str
    device: str
    version: int
    role: str
    view_of: str = ""
    sharing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a stack.

    Attributes:
        file: Its file, relative to the working directory where it is below it.
        line: Its number.
        function: The function that it is in.
        library: Whether it belongs to an installed package and not to the user.
    """

    file: str
    line: int
    function: str
    library: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """Where memory was made.

    Attributes:
        step: In which step, from 1.
        phase: forward, recompute, backward or optimizer.
        operation: The operator that made it, such as `aten.exp.default`.
        module: The modules that ran, as `Model.layers.0`; empty outside of a module's forward.
        region: The function given to the innermost `checkpoint`; empty outside.
        depth: How many calls of a function named `checkpoint` were open.
        stack: From the outermost line to the innermost.
    """

    step: int
    phase: str
    operation: str
    module: str = ""
    region: str = ""
    depth: int = 0
    stack: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What one object alone keeps: a node of the dominator tree.

    Attributes:
        what: The object's type, and how its own dominator refers to it where it does so directly.
        bytes: Of the leaked memory, what no way leads to but through it.
    """

    what: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Something that was tried in a child process.

    Attributes:
        what: What was done, as code.
        freed: Bytes that were live before and not after; None where it could not be tried.
        problem: Why not.
    """

    what: str
    freed: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The same steps in another variant, such as with no checkpointing.

    Attributes:
        name: Which.
        levels: Live bytes after each step, warm-up included.
        per_step: Bytes that each step adds; 0 where it does not leak.
        trend: What the growth rule says of the levels.
        problem: Why it could not be run; empty where it ran.
    """

    name: str
    levels: tuple[int, ...] = ()
    per_step: int = 0
    trend: str = ""
    problem: str = ""


def facts_of(data: Mapping[str, Any]) -> TensorFacts:
    """The facts that plain data describes."""
    return TensorFacts(**{**data, "shape": tuple(data["shape"])})


def birth_of(data: Mapping[str, Any]) -> Birth:
    """The birth that plain data describes."""
    return Birth(**{**data, "stack": tuple(Line(**line) for line in data["stack"])})


def column_of(data: Mapping[str, Any]) -> Column:
    """The column that plain data describes."""
    return Column(**{**data, "levels": tuple(data["levels"])})
