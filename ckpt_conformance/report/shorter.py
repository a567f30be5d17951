"""Shorten generated source: what a reader of a script can do without."""

from __future__ import annotations

import ast
import itertools


def plainer(tree: ast.AST) -> ast.AST:
    """The tree without docstrings and types; it is changed in place."""
    made: ast.AST = ast.fix_missing_locations(_Plainer().visit(tree))
    return made


def shorter(tree: ast.Module) -> ast.Module:
    """The tree without names that are only returned, or that only rename an argument; changed in place."""
    made: ast.Module = ast.fix_missing_locations(_Shorter().visit(tree))
    return made


def folded(source: str, limit: int, width: int = 110) -> str:
    """The source with short statements side by side, from the end, until it has at most `limit` lines."""
    lines = source.splitlines()
    for first in reversed(_foldable(ast.parse(source))):
        if len(lines) <= limit:
            break
        joined = f"{lines[first - 1]}; {lines[first].strip()}"
        if len(joined) <= width:
            lines[first - 1 : first + 1] = [joined]
    return "\n".join(lines) + "\n"


def _foldable(tree: ast.AST) -> list[int]:
    """The lines whose statement is simple and has one right below it, in the same block."""
    simple = (ast.Assign, ast.Expr, ast.AugAssign, ast.Return, ast.Import, ast.Delete)
    found = []
    for node in ast.walk(tree):
        for part in ("body", "orelse", "finalbody"):
            body = getattr(node, part, None)
            for one, other in itertools.pairwise(body if isinstance(body, list) else []):
                alone = all(
                    isinstance(each, simple) and each.lineno == each.end_lineno for each in (one, other)
                )
                if alone and other.lineno == one.lineno + 1 and not isinstance(one, ast.Return):
                    found.append(one.lineno)
    return sorted(found)


class _Plainer(ast.NodeTransformer):
    """Leaves docstrings and types out."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = node.body[1:] if ast.get_docstring(node) else node.body
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = node.body[1:] if ast.get_docstring(node) else node.body
        node.returns = None
        for argument in ast.walk(node.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is None:  # a dataclass's field
            node.annotation = ast.Name("object", ast.Load())
            return node
        return ast.Assign([node.target], node.value)


class _Shorter(ast.NodeTransformer):
    """Joins what only names a value in order to return it, or to call an argument something else."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        _rename_argument(node)
        while _returned_at_once(node.body):
            named = node.body[-2]
            assert isinstance(named, ast.Assign)
            node.body[-2:] = [ast.Return(named.value)]
        if node.name == "setup":
            _return_leaves(node)
        return node


def _bound(statement: ast.stmt) -> str | None:
    """The one name that a statement binds, where that is all it does."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _returned_at_once(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if len(body) < 2 or not isinstance(last, ast.Return) or not isinstance(last.value, ast.Name):
        return False
    return _bound(body[-2]) == last.value.id


def _rename_argument(node: ast.FunctionDef) -> None:
    """`def consumer(out): o = out` becomes `def consumer(o)`."""
    first, *rest = node.body
    name = _bound(first) if rest else None  # a body that has nothing else stays
    given = first.value if isinstance(first, ast.Assign) else None
    arguments = node.args.args
    if name and isinstance(given, ast.Name) and [argument.arg for argument in arguments] == [given.id]:
        arguments[0].arg = name
        del node.body[0]


def _return_leaves(node: ast.FunctionDef) -> None:
    """`x = leaf(); return {'x': x}` becomes `return {'x': leaf()}`: no leaf is made of another one."""
    made = {_bound(statement): statement for statement in node.body[:-1]}
    if len(made) < len(node.body) - 1:
        return  # one is made of another
    last = node.body[-1]
    assert isinstance(last, ast.Return)
    assert isinstance(last.value, ast.Dict)
    last.value.values = [
        made[value.id].value if isinstance(value, ast.Name) else value  # type: ignore[attr-defined]
        for value in last.value.values
    ]
    node.body = [last]
