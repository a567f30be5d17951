"""A module of this package as statements that can be taken out of it one by one."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ckpt_conformance.report.scopes import bound_names, global_names


@dataclass(frozen=True, slots=True)
class Import:
    """`from module import attribute`, or `import module` where that is None; `bound` is its name here."""

    module: str
    attribute: str | None
    bound: str

    def parts(self, name: str) -> tuple[str, str]:
        """The import statement that binds it as `name`, in two parts: `from module import`, and the rest."""
        if self.attribute is not None:
            whole = self.attribute
            return f"from {self.module} import", whole if name == whole else f"{whole} as {name}"
        root = self.module.partition(".")[0]
        return "import", self.module if name == root == self.bound else f"{self.module} as {name}"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a module's top level.

    Attributes:
        node: Its syntax tree.
        names: What it binds.
        first: The number of its first line, comments above and decorators included.
        last: The number of its last line; that of the string that documents an assignment, if one follows.
    """

    node: ast.stmt
    names: frozenset[str]
    first: int
    last: int

    def uses(self) -> frozenset[str]:
        """The top-level names that it needs."""
        return frozenset(name.id for name in global_names(self.node)) - self.names


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """A module's source, taken apart.

    Attributes:
        name: The module's name.
        lines: Its lines, without their ends.
        statements: What it defines, in order; imports are not among them.
        imports: Its plain imports, by the name they bind.
    """

    name: str
    lines: tuple[str, ...]
    statements: tuple[Statement, ...]
    imports: Mapping[str, Import]

    def defining(self, name: str) -> Statement | None:
        """The last statement that binds a name; None where it is imported or unknown."""
        return next((found for found in reversed(self.statements) if name in found.names), None)


@cache
def module_source(name: str) -> ModuleSource:
    """Take an importable module apart.

    Raises:
        OSError: Its source is not there.
    """
    text = inspect.getsource(importlib.import_module(name))
    tree, lines = ast.parse(text), tuple(text.split("\n"))
    imports = {found.bound: found for node in tree.body for found in _imports(node)}
    return ModuleSource(name, lines, tuple(_statements(tree, lines)), imports)


def _imports(node: ast.stmt) -> Iterator[Import]:
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
        for alias in node.names:
            yield Import(node.module, alias.name, alias.asname or alias.name)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, None, alias.asname or alias.name.partition(".")[0])


def _statements(tree: ast.Module, lines: tuple[str, ...]) -> Iterator[Statement]:
    for node, after in pairwise([*tree.body, ast.Pass()]):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Expr) or _is_for_type_checkers(node):
            continue
        last = after if isinstance(node, ast.Assign | ast.AnnAssign) and _is_string(after) else node
        yield Statement(node, frozenset(bound_names([node])), _first_line(node, lines), last.end_lineno or 0)


def _is_string(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _first_line(node: ast.stmt, lines: tuple[str, ...]) -> int:
    decorators = getattr(node, "decorator_list", [])
    first: int = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    while first > 1 and lines[first - 2].startswith("#"):
        first -= 1
    return first
