"""Put what a function needs from this package into one file, and nothing else."""

from __future__ import annotations

import ast
import keyword
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Final

from ckpt_conformance.report.scopes import global_names
from ckpt_conformance.report.source import Import, ModuleSource, Statement, module_source

_OURS: Final = ("ckpt_conformance", "fixtures")
_CANDIDATES: Final = "ckpt_conformance.reference"
"""A candidate like any other: imported, not taken apart; its C++ source lies next to it."""
_ENTERING: Final = frozenset({"requirement", "miniature", "odd"})
"""Decorators that enter a function into a registry: they are left out."""


class NoScriptError(Exception):
    """No stand-alone script can be written; the message says why."""


@dataclass(slots=True)
class Bundle:
    """The definitions that some names need, taken from their modules.

    Names that two modules use for different things get a number; see `name_of`.
    """

    _needed: dict[str, dict[int, Statement]] = field(default_factory=dict)
    _imports: dict[Import, None] = field(default_factory=dict)
    _uses: dict[str, set[str]] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=lambda: {*keyword.kwlist, "CANDIDATE", "main"})

    def import_(self, module: str, attribute: str | None = None) -> str:
        """Import a module, or an attribute of one; gives what the bundle calls it."""
        found = Import(module, attribute, attribute or module.partition(".")[0])
        self._imports[found] = None
        return self._name(*_import_home(found))

    def take(self, module: str, name: str) -> str:
        """Take a definition of this package, or import that of another; gives what the bundle calls it."""
        if not _is_ours(module):
            return self.import_(module, name)
        self.add(module, name)
        return self.name_of(module, name)

    def add(self, module: str, name: str) -> None:
        """Take a name's definition, and all that it needs.

        Raises:
            NoScriptError: It cannot be taken out of its module.
        """
        source = _source(module)
        statement = source.defining(name)
        if statement is not None:
            self._add_statement(source, statement)
        elif name in source.imports:
            self._add_import(module, source.imports[name])

    def _add_statement(self, source: ModuleSource, statement: Statement) -> None:
        taken = self._needed.setdefault(source.name, {})
        if statement.first in taken:
            return
        _refuse_inner_imports(source, statement)
        taken[statement.first] = statement
        for name in sorted(_stripped(statement).uses()):
            self.add(source.name, name)

    def _add_import(self, module: str, found: Import) -> None:
        if not _is_ours(found.module):
            self._imports[found] = None
            return
        if found.attribute is None or _names_module(found):
            raise NoScriptError(f"{module} uses the module {found.module} as a whole")
        self.add(found.module, found.attribute)
        self._uses.setdefault(module, set()).add(found.module)

    def name_of(self, module: str, name: str) -> str:
        """What a name of a module is called in the bundle; itself where the module does not bind it."""
        home = _home(module, name)
        return name if home is None else self._name(*home)

    def _name(self, home: str, name: str) -> str:
        if (home, name) not in self._names:
            self._names[home, name] = self._free(name)
        return self._names[home, name]

    def _free(self, name: str) -> str:
        number, free = 1, name
        while free in self._taken:
            number, free = number + 1, f"{name}_{number + 1}"
        self._taken.add(free)
        return free

    def imports(self) -> str:
        """The import statements, those of the standard library first."""
        groups: dict[bool, dict[str, list[str]]] = {False: {}, True: {}}
        for found in self._imports:
            start, what = found.parts(self._name(*_import_home(found)))
            foreign = found.module.partition(".")[0] not in sys.stdlib_module_names
            groups[foreign].setdefault(start, []).append(what)
        return "\n\n".join(_import_lines(group) for group in groups.values() if group)

    def definitions(self) -> str:
        """The definitions: modules before those that use them, within each as it has them."""
        order = TopologicalSorter({module: self._uses.get(module, set()) for module in self._needed})
        modules = [module for module in order.static_order() if module in self._needed]
        return "\n\n\n".join(self._module_text(module) for module in modules)

    def _module_text(self, module: str) -> str:
        source, taken = _source(module), self._needed[module]
        parts = [self._text(source, taken[first]) for first in sorted(taken)]
        return "\n\n\n".join([f"# From {module}.", *parts])

    def _text(self, source: ModuleSource, statement: Statement) -> str:
        lines = [line.encode() for line in source.lines]
        for name, line, column in sorted(_mentions(source, statement), key=lambda at: at[1:], reverse=True):
            renamed = self.name_of(source.name, name)
            if renamed != name:
                text = lines[line - 1]
                lines[line - 1] = text[:column] + renamed.encode() + text[column + len(name) :]
        skipped = _entering_lines(statement)
        kept = (n for n in range(statement.first, statement.last + 1) if n not in skipped)
        return "\n".join(lines[number - 1].decode() for number in kept)


def _source(module: str) -> ModuleSource:
    try:
        return module_source(module)
    except (OSError, TypeError, SyntaxError) as error:
        raise NoScriptError(f"the source of {module} cannot be read") from error


def _is_ours(module: str) -> bool:
    inside = module.split(".")[0] in _OURS
    return inside and module != _CANDIDATES and not module.startswith(f"{_CANDIDATES}.")


def _names_module(found: Import) -> bool:
    source = _source(found.module)
    return source.defining(found.attribute or "") is None and found.attribute not in source.imports


def _home(module: str, name: str) -> tuple[str, str] | None:
    """The module that defines a name, and the name there; imports from elsewhere have a key of their own."""
    source = _source(module)
    if source.defining(name) is not None:
        return module, name
    found = source.imports.get(name)
    if found is None:
        return None
    if _is_ours(found.module) and found.attribute is not None:
        return _home(found.module, found.attribute)
    return _import_home(found)


def _import_home(found: Import) -> tuple[str, str]:
    return f"import {found.module} {found.attribute}", found.bound


def _mentions(source: ModuleSource, statement: Statement) -> Iterator[tuple[str, int, int]]:
    """Each place that says a top-level name: the name, its line and its column in bytes."""
    for found in global_names(statement.node):
        yield found.id, found.lineno, found.col_offset
    node = statement.node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        text = source.lines[node.lineno - 1]
        yield node.name, node.lineno, len(text[: text.index(f" {node.name}") + 1].encode())


def _stripped(statement: Statement) -> Statement:
    """The statement without the decorators that enter it into a registry."""
    node = statement.node
    if not isinstance(node, ast.FunctionDef):
        return statement
    kept = [decorator for decorator in node.decorator_list if not _enters(decorator)]
    fields_ = {name: value for name, value in ast.iter_fields(node) if name != "decorator_list"}
    bare = ast.copy_location(ast.FunctionDef(decorator_list=kept, **fields_), node)
    return Statement(bare, statement.names, statement.first, statement.last)


def _enters(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id in _ENTERING


def _entering_lines(statement: Statement) -> frozenset[int]:
    decorators: Iterable[ast.expr] = getattr(statement.node, "decorator_list", ())
    spans = [range(found.lineno, (found.end_lineno or 0) + 1) for found in decorators if _enters(found)]
    return frozenset(line for span in spans for line in span)


def _refuse_inner_imports(source: ModuleSource, statement: Statement) -> None:
    for node in ast.walk(statement.node):
        if isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            raise NoScriptError(f"{source.name} imports {node.module} inside a function")


def _import_lines(group: Mapping[str, Iterable[str]]) -> str:
    """The lines of one group: `import a` before `from a import b, c`, each in the alphabet's order."""
    lines = [f"import {what}" for what in sorted(group.get("import", ()))]
    lines += [
        f"{start} {', '.join(sorted(set(group[start])))}" for start in sorted(group) if start != "import"
    ]
    return "\n".join(lines)
