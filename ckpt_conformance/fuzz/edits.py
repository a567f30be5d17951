"""Edits of a program's source, each of which makes it simpler in one place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ckpt_conformance.fuzz import forms
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.traits import RANDOM, is_view, lent_outputs


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of one place of a program.

    Attributes:
        name: What it does.
        places: In how many places of a program it can be tried.
        change: Gives the edited program, or None where the edit does not apply to a place.
        brings: Traits that the edited program may have though the program has not.
    """

    name: str
    places: Callable[[Program], int]
    change: Callable[[Program, int], Program | None]
    brings: frozenset[str] = frozenset()

    def __call__(self, program: Program, place: int) -> Program | None:
        """The edited program; None where there is nothing to edit."""
        return self.change(program, place)


_Find: TypeAlias = Callable[[ast.Module], list[forms.Place]]


def _in_step(name: str, find: _Find, brings: frozenset[str] = frozenset()) -> Edit:
    """An edit of the step's syntax tree, at one of the places that `find` gives."""

    def change(program: Program, place: int) -> Program | None:
        tree = ast.parse("\n".join(program.step))
        found = find(tree)
        if place >= len(found):
            return None
        found[place]()
        lines = ast.unparse(tree).splitlines()
        return replace(program, step=tuple(line for line in lines if line))

    return Edit(name, lambda program: len(find(ast.parse("\n".join(program.step)))), change, brings)


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for part in ("body", "orelse"):
            body = getattr(node, part, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield body


def _removals(size: int) -> _Find:
    """Statements to leave out, so many at a time."""

    def find(tree: ast.Module) -> list[forms.Place]:
        return [
            forms.Place(body.__delitem__, slice(start, start + size))
            for body in _bodies(tree)
            for start in range(len(body) - size + 1)
            if len(body) > size
        ]

    return find


def _unwrapped(tree: ast.Module) -> list[forms.Place]:
    """Blocks to replace by what they hold: `with`, `if`, and `try` with what is entered before it."""
    return [
        forms.Place(body.__setitem__, slice(number - before, number + 1), statement.body)
        for body in _bodies(tree)
        for number, statement in enumerate(body)
        if isinstance(statement, (ast.With, ast.If, ast.Try))
        for before in (range(min(number, 2) + 1) if isinstance(statement, ast.Try) else (0,))
    ]


def _expressions(template: str, fits: Callable[[ast.expr], bool]) -> _Find:
    """What names are bound to, to be replaced by a simpler expression of a name in it."""

    def find(tree: ast.Module) -> list[forms.Place]:
        return [
            forms.Place(setattr, node, "value", ast.parse(template.format(name), mode="eval").body)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and fits(node.value)
            for name in forms.tensors_in(node.value)
            if ast.unparse(node.value) != template.format(name)
        ]

    return find


def _computes(value: ast.expr) -> bool:
    """Whether an expression makes a tensor of tensors: it is no call of a region, and no container."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "meet":
        return False
    if "requires_grad_" in forms.words_in(value):
        return False  # a survived backward may leave half a gradient: on no other leaf than this one
    return not isinstance(value, (ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Constant))


def _cut(tree: ast.Module) -> list[forms.Place]:
    """What is computed without gradients, to be cut off by `detach` alone."""
    return [
        forms.Place(body.__setitem__, number, _sine_of_detached(statement.body[0], name))
        for body in _bodies(tree)
        for number, statement in enumerate(body)
        if isinstance(statement, ast.With) and ast.unparse(statement.items[0]) == "torch.no_grad()"
        for name in forms.tensors_in(statement.body[0])[-1:]
        if forms.name_of(statement.body[0]) not in {None, name}
    ]


def _sine_of_detached(statement: ast.stmt, name: str) -> ast.stmt:
    return ast.parse(f"{forms.name_of(statement)} = {name}.detach().sin()").body[0]


def _detaches(value: ast.expr) -> bool:
    return _computes(value) and "detach" in forms.words_in(value)


def _draws(value: ast.expr) -> bool:
    return _computes(value) and bool(forms.words_in(value) & RANDOM)


_SAVE_CONSTANTS = frozenset({
    "batch_norm", "conv1d", "embedding", "layer_norm", "linear", "max", "norm", "sort", "weight", "where",
})  # fmt: skip
"""Operations whose backward needs something that has no gradient: a mask, places, statistics, an input."""


def _saves_a_constant(value: ast.expr) -> bool:
    multiplies = any(isinstance(node, ast.MatMult) for node in ast.walk(value))
    return _computes(value) and (multiplies or bool(forms.words_in(value) & _SAVE_CONSTANTS))


def _draws_otherwise(value: ast.expr) -> bool:
    return _draws(value) and not forms.words_in(value) & {"dropout", "rand_like"}


def _halves(tree: ast.Module) -> list[forms.Place]:
    """Several views that are bound at once, to be one of them."""
    return [
        forms.Place(_one_view, node, target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and is_view(node.value)
        for target in node.targets[0].elts
        if forms.tensors_in(node.value)
    ]


def _one_view(node: ast.Assign, target: ast.expr) -> None:
    name = forms.tensors_in(node.value)[0]
    node.targets, node.value = [target], ast.parse(f"{name}.view_as({name})", mode="eval").body


def _in_place(tree: ast.Module) -> list[forms.Place]:
    """Changes in place, to be replaced by one that no gradient depends on."""
    return [
        forms.Place(setattr, node, "value", ast.parse(f"{name}.add_(1)", mode="eval").body)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and forms.changes(node.value)
        for name in forms.tensors_in(node.value)[:1]
        if ast.unparse(node.value) != f"{name}.add_(1)"
    ]


def _results(tree: ast.Module) -> list[forms.Place]:
    """What the step, or a function in it, gives: another value that it has bound."""
    found = []
    for body in _bodies(tree):
        last = body[-1]
        is_result = isinstance(last, ast.Assign) and ast.unparse(last.targets[0]) == "result"
        if is_result or (isinstance(last, ast.Return) and ast.unparse(last) != "return met"):
            made = [node for node in body[:-1] if isinstance(node, ast.Assign) and _makes(node.value)]
            found += [
                forms.Place(setattr, last, "value", ast.Name(name, ast.Load()))
                for name in map(forms.name_of, made)
                if name and ast.unparse(last).split()[-1] != name
            ]
    return found


def _makes(value: ast.expr) -> bool:
    return _computes(value) or (isinstance(value, ast.Call) and not isinstance(value.func, ast.Attribute))


def _once(tree: ast.Module) -> list[forms.Place]:
    """Regions that run in turns, to run once."""
    return [
        forms.Place(setattr, node, "value", ast.parse(turn.replace(" * turn", ""), mode="eval").body)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for turns in node.value.args[:1]
        if ast.unparse(node.value.func) == "sum" and isinstance(turns, ast.GeneratorExp)
        for turn in [ast.unparse(turns.elt)]
    ]


def _meetings(tree: ast.Module) -> list[forms.Place]:
    """Arguments of `meet` and `cat` to leave out."""
    return [
        forms.Place(given.__delitem__, number)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"meet", "torch.cat"}
        for given in [node.args[0].elts if isinstance(node.args[0], ast.List) else node.args]
        if len(given) > 1
        for number in range(len(given))
    ]


def _own_outputs(tree: ast.Module) -> list[forms.Place]:
    """Outputs that a region has not made, to be sines of them."""
    return [
        forms.Place(setattr, last, "value", _with_sine(last.value, name))
        for region in ast.walk(tree)
        if isinstance(region, ast.FunctionDef) and not region.name.startswith("consumer")
        for last in region.body[-1:]
        if isinstance(last, ast.Return) and last.value is not None
        for name in lent_outputs(region)
    ]


def _with_sine(value: ast.expr, name: str) -> ast.expr:
    return ast.parse(re.sub(rf"\b{name}\b(?!\.)", f"{name}.sin()", ast.unparse(value)), mode="eval").body


def _plainly(program: Program, place: int) -> Program | None:
    """One backward, or no autocast."""
    if place == 0:
        features = program.features - {f"plan-{program.plan}"} | {"plan-once"}
        return replace(program, plan="once", features=features)
    features = program.features - {"ambient-autocast", "backward-autocast"}
    return replace(program, autocast="", features=features)


def _same_leaf(program: Program, place: int) -> Program | None:
    """The first leaf in place of another one."""
    first, other = program.leaves[0], program.leaves[place]
    if other.startswith("c"):
        return None  # a constant that a function knows is no input
    step = tuple(re.sub(rf"\b{other}\b", first, line) for line in program.step)
    return replace(program, step=step) if other != first else None


def _without_leaf(program: Program, place: int) -> Program | None:
    if len(program.leaves) < 2:
        return None
    name = program.leaves[place]
    setup = tuple(line for line in program.setup if not line.startswith(f"{name} = "))
    return replace(program, setup=setup, leaves=tuple(leaf for leaf in program.leaves if leaf != name))


def _plain_leaf(program: Program, place: int) -> Program | None:
    """A leaf of single precision that needs a gradient, and is no parameter of a module."""
    line = program.setup[place]
    if "Parameter" in line:
        return replace(program, setup=(*program.setup[:place], *program.setup[place + 1 :]))
    plain = ", ".join(part for part in line.split(", ") if "grad=" not in part and "dtype=" not in part)
    plain = plain if plain.endswith(")") else f"{plain})"
    setup = (*program.setup[:place], plain, *program.setup[place + 1 :])
    return replace(program, setup=setup)


def _leaves(program: Program) -> int:
    return len(program.leaves)


EDITS = (
    Edit("plan", lambda _program: 2, _plainly),
    _in_step("result", _results),
    *(_in_step(f"without {size} statements", _removals(size)) for size in (6, 3, 2, 1)),
    _in_step("renaming", forms.renamings),
    Edit("same leaf", _leaves, _same_leaf),
    _in_step("once", _once),
    _in_step("outputs", forms.outputs),
    _in_step("own outputs", _own_outputs),
    _in_step("plain functions", forms.plain_functions),
    _in_step("by position", forms.calls),
    _in_step("block", _unwrapped),
    _in_step("meet", _meetings),
    _in_step("expression", _expressions("{}.sin()", _computes)),
    _in_step("cut", _cut, frozenset({"detach"})),
    _in_step("one cut", _expressions("{}.detach().sin()", _detaches)),
    _in_step("one draw", _expressions("F.dropout({}, 0.5)", _draws), frozenset({"dropout"})),
    _in_step(
        "another draw",
        _expressions("{0} * torch.rand_like({0})", _draws_otherwise),
        frozenset({"rand_like"}),
    ),
    _in_step("one constant", _expressions("{0} * {0}.detach()", _saves_a_constant), frozenset({"detach"})),
    _in_step("one view", _expressions("{0}.view_as({0})", is_view), frozenset({"view_as"})),
    _in_step("half", _halves, frozenset({"view_as"})),
    _in_step("one change", _in_place, frozenset({"add_"})),
    Edit("without a leaf", _leaves, _without_leaf),
    Edit("plain leaf", lambda program: len(program.setup), _plain_leaf),
)
"""Every edit, the ones that take most first."""
