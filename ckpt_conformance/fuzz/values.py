"""The typed values of a program under construction, and the scope that they live in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, TypeVar

Kind: TypeAlias = Literal["float", "double", "complex", "half", "int", "bool"]
Shape: TypeAlias = tuple[int, ...]
T = TypeVar("T")

_KINDS: Mapping[str, Kind] = {"float32": "float", "float64": "double", "complex64": "complex"}

LARGEST = 256
"""The most elements of a value that an operation takes, so that no chain of them grows without end."""


class Choose(Protocol):
    """Where a program's choices come from; the first of the options is the simplest."""

    def __call__(self, options: Sequence[T], /) -> T:
        """One of the options."""


@dataclass(slots=True)
class Value:
    """A tensor that the program has bound to a name.

    Attributes:
        name: The name.
        shape: Its shape.
        kind: Its dtype's kind.
        fresh: Whether it owns its memory and nothing has saved it yet: it may be changed in place.
        grad: Whether it may need a gradient.
        own: Whether it owns its memory, saved or not.
    """

    name: str
    shape: Shape
    kind: Kind = "float"
    fresh: bool = False
    grad: bool = True
    own: bool = False

    @property
    def real(self) -> bool:
        """Whether it is a real floating point tensor."""
        return self.kind in {"float", "double"}

    @property
    def empty(self) -> bool:
        """Whether it has no rows."""
        return 0 in self.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


@dataclass(slots=True)
class Scope:
    """The lines of one function body, and the values that it can use."""

    choose: Choose
    leaves: Leaves
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    @property
    def features(self) -> set[str]:
        """What the whole program uses."""
        return self.leaves.features

    def bind(
        self, expression: str, shape: Shape, kind: Kind = "float", *, fresh: bool = True, grad: bool = True
    ) -> Value:
        """Bind an expression to a new name."""
        value = Value(self.leaves.name("v"), shape, kind, fresh, grad, own=fresh)
        self.lines.append(f"{value.name} = {expression}")
        self.values.append(value)
        return value

    def pick(self, fits: Callable[[Value], bool], *, rowless: bool = False) -> Value | None:
        """One of the values that fit, the newest being the simplest choice; None where none does.

        Args:
            fits: Whether a value fits.
            rowless: Whether a value without rows may.
        """
        options = [
            value
            for value in reversed(self.values)
            if value.size <= LARGEST and (rowless or not value.empty) and fits(value)
        ]
        return self.choose(options) if options else None

    def indent(self, lines: int = 1) -> None:
        """Put the newest lines under the block that was opened before them."""
        self.lines[-lines:] = [f"    {line}" for line in self.lines[-lines:]]

    def inner(self, values: list[Value]) -> Scope:
        """A scope for a function inside this one."""
        return Scope(self.choose, self.leaves, values)


@dataclass(slots=True)
class Leaves:
    """The leaves that the program has made so far, what it uses, and what it changes in place."""

    lines: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)
    made: dict[Shape, str] = field(default_factory=dict)
    features: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    change: str = "nothing"
    mode: str = ""

    def name(self, prefix: str) -> str:
        """A name that is not in use."""
        return f"{prefix}{next(self.numbers)}"

    def leaf(self, prefix: str, shape: Shape, *, grad: bool = True, dtype: str = "float32") -> Value:
        """Make a leaf of normal values."""
        name = self.name(prefix)
        extents = ", ".join(map(str, shape))
        options = ("" if grad else ", grad=False") + ("" if dtype == "float32" else f", dtype=torch.{dtype}")
        self.lines.append(f"{name} = leaf({extents}, seed={len(self.names)}{options})")
        self.names.append(name)
        self.trained += [name] * grad
        return Value(name, shape, _KINDS[dtype], grad=grad)

    def index(self, shape: Shape, below: int) -> Value:
        """Make an integer leaf."""
        name = self.name("i")
        self.lines.append(
            f"{name} = index({', '.join(map(str, shape))}, seed={len(self.names)}, below={below})"
        )
        self.names.append(name)
        return Value(name, shape, "int", grad=False)

    def parameter(self, *shape: int) -> str:
        """A parameter of a shape; the same one again for the same shape, so that parameters get tied."""
        if shape not in self.made:
            self.made[shape] = self.leaf("w", shape).name
        return self.made[shape]
