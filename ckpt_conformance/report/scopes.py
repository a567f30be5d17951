"""Which names of a piece of source mean what the module's top level binds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp,
           ast.DictComp, ast.GeneratorExp)  # fmt: skip


def global_names(node: ast.AST) -> list[ast.Name]:
    """The `ast.Name` nodes inside a statement of a module's top level that are no local variables."""
    finder = _Finder()
    finder.visit(node)
    return finder.found


def bound_names(statements: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements bind in their own scope, as Python sees it: nested scopes are left out."""
    for statement in statements:
        yield from _bound_by(statement)
        if not isinstance(statement, _SCOPES):
            yield from bound_names(ast.iter_child_nodes(statement))


def _bound_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.alias(name=name, asname=asname):
            yield asname or name.partition(".")[0]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name


class _Finder(ast.NodeVisitor):
    """Walks with the stack of scopes; a class's names are seen by its own statements alone."""

    def __init__(self) -> None:
        self.found: list[ast.Name] = []
        self._scopes: list[frozenset[str]] = []
        self._class_names: frozenset[str] = frozenset()

    def visit_Name(self, node: ast.Name) -> None:
        if node.id not in self._class_names and not any(node.id in scope for scope in self._scopes):
            self.found.append(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for outside in (*node.decorator_list, node.returns):
            self._visit_if(outside)
        self._visit_function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815 - ast's own naming

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node, [node.body])

    def _visit_function(self, node: Function, body: list[ast.stmt] | list[ast.expr]) -> None:
        arguments = list(ast.walk(node.args))
        names = {argument.arg for argument in arguments if isinstance(argument, ast.arg)}
        for outside in (*node.args.defaults, *node.args.kw_defaults):
            self._visit_if(outside)
        for argument in arguments:
            if isinstance(argument, ast.arg):
                self._visit_if(argument.annotation)
        declared = {
            name
            for inner in body
            for part in ast.walk(inner)
            if isinstance(part, ast.Global)
            for name in part.names
        }
        self._visit_scope(body, frozenset(names | set(bound_names(body)) - declared))

    def _visit_scope(self, body: Iterable[ast.AST], names: frozenset[str]) -> None:
        outer_class_names, self._class_names = self._class_names, frozenset()
        self._scopes.append(names)
        for inner in body:
            self.visit(inner)
        self._scopes.pop()
        self._class_names = outer_class_names

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outside in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(outside)
        outer, self._class_names = self._class_names, frozenset(bound_names(node.body))
        for inner in node.body:
            self.visit(inner)
        self._class_names = outer

    def visit_ListComp(self, node: Comprehension) -> None:
        targets = [name for part in node.generators for name in bound_names([part.target])]
        self._scopes.append(frozenset(targets))
        self.generic_visit(node)
        self._scopes.pop()

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # noqa: N815 - ast's own naming

    def _visit_if(self, node: ast.AST | None) -> None:
        if node is not None:
            self.visit(node)
