"""The forms in which regions take inputs and give outputs, rewritten as plain ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from ckpt_conformance.fuzz.traits import is_run, reached_by, region_name

_RENAMES = re.compile(r"\w+\.(sin\(\)|detach\(\)|view_as\(\w+\))")
_TENSOR = re.compile(r"[a-z]\d+(_\d+)?|x|y|penalty")


class Place:
    """An edit of a syntax tree that is still to be made."""

    def __init__(self, edit: Callable[..., object], *given: Any) -> None:
        self._edit, self._given = edit, given

    def __call__(self) -> None:
        """Make it."""
        self._edit(*self._given)


def name_of(statement: ast.AST) -> str | None:
    """The one name that a statement binds, if it does that."""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _assign(target: ast.expr, value: ast.expr) -> ast.Assign:
    return ast.Assign([target], value, lineno=0)  # unparse() asks for a line


def words_in(node: ast.AST) -> set[str]:
    """The attributes in an expression."""
    return {found.attr for found in ast.walk(node) if isinstance(found, ast.Attribute)}


def tensors_in(node: ast.AST) -> list[str]:
    """The names in an expression that may be tensors of the program, in order and once each."""
    names = [found.id for found in _names(node) if _TENSOR.fullmatch(found.id)]
    return list(dict.fromkeys(names))


def _names(node: ast.AST) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


def changes(call: ast.Call) -> bool:
    """Whether a call changes a tensor in place."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return (method.endswith("_") and not method.endswith("__")) or "inplace" in ast.unparse(call)


def _functions(tree: ast.AST) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def _blocks(tree: ast.AST) -> dict[str, ast.FunctionDef]:
    """The functions of the regions that are modules, by the modules' names."""
    functions, found = _functions(tree), {}
    for node in ast.walk(tree):
        name = name_of(node)
        if name and isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = node.value
            region = functions.get(ast.unparse(made.args[0])) if made.args else None
            if region is not None and ast.unparse(made.func) == "Block":
                found[name] = region
    return found


def plain_functions(tree: ast.Module) -> list[Place]:
    """Regions that are modules or other callables, to be run as functions."""
    blocks, found = _blocks(tree), []
    for node in ast.walk(tree):
        if is_run(node):
            assert isinstance(node, ast.Call)
            region = blocks.get(region_name(node))
            if region is not None:
                found.append(Place(_no_module, node, region))
            if isinstance(node.args[0], ast.Call):
                found.append(Place(node.args.__setitem__, 0, node.args[0].args[0]))
    return found


def _no_module(call: ast.Call, region: ast.FunctionDef) -> None:
    call.args[0] = ast.Name(region.name, ast.Load())
    region.args.args = [argument for argument in region.args.args if argument.arg != "self"]


def calls(tree: ast.Module) -> list[Place]:
    """Calls of regions to be made by position, with tensors alone."""
    functions, found = _functions(tree) | _blocks(tree), []
    for node in ast.walk(tree):
        if is_run(node):
            assert isinstance(node, ast.Call)
            region = functions.get(region_name(node))
            edits = (_once_each, _only_used) if _by_position(node) else (_call_by_position, _constants_inside)
            found += [Place(_besides_self, edit, node, region) for edit in edits if region is not None]
    return found


def _besides_self(
    edit: Callable[[ast.Call, ast.FunctionDef], None], call: ast.Call, region: ast.FunctionDef
) -> None:
    """Edit a call of a region, which perhaps is a module's: nobody passes `self`."""
    own = [argument for argument in region.args.args if argument.arg == "self"]
    region.args.args = region.args.args[len(own) :]
    edit(call, region)
    region.args.args = [*own, *region.args.args]


def _once_each(call: ast.Call, region: ast.FunctionDef) -> None:
    """A tensor that is given twice is given once."""
    arguments, parameters = call.args[1], region.args.args
    assert isinstance(arguments, ast.Tuple)
    names = [ast.unparse(given) for given in arguments.elts]
    for number in reversed(range(min(len(names), len(parameters)))):
        first = names.index(names[number])
        if first < number:
            _rename(region, parameters.pop(number).arg, parameters[first].arg)
            del arguments.elts[number]


def _only_used(call: ast.Call, region: ast.FunctionDef) -> None:
    """What a region does not look at is not given."""
    arguments, parameters = call.args[1], region.args.args
    assert isinstance(arguments, ast.Tuple)
    used = {node.id for node in _names(region)}
    for number in reversed(range(min(len(arguments.elts), len(parameters)))):
        if parameters[number].arg not in used:
            del parameters[number], arguments.elts[number]


def _constants_inside(call: ast.Call, region: ast.FunctionDef) -> None:
    """What is no tensor among the arguments becomes the region's own."""
    arguments = call.args[1]
    assert isinstance(arguments, ast.Tuple)
    for number in reversed(range(min(len(arguments.elts), len(region.args.args)))):
        if isinstance(arguments.elts[number], ast.Constant):
            name = ast.Name(region.args.args.pop(number).arg, ast.Store())
            region.body.insert(0, _assign(name, arguments.elts.pop(number)))


def renamings(tree: ast.Module) -> list[Place]:
    """Arguments and outputs to be taken for the first of them, and sines and views for what they are of.

    What a region reaches by closure is taken for its first argument.
    """
    groups = [names for node in ast.walk(tree) for names in _exchangeable(node)]
    used = {node.id for node in _names(tree) if isinstance(node.ctx, ast.Load)}
    return [
        Place(_rename, tree, name, other)
        for names in groups
        for name in names[1:]
        for other in names[:1]
        if name in used and _TENSOR.fullmatch(name)
    ] + [
        Place(_rename, region, name, region.args.args[0].arg)
        for region in _functions(tree).values()
        if region.args.args and _TENSOR.fullmatch(region.args.args[0].arg)
        for name in sorted(reached_by(region))
        if not name.startswith("c")  # a constant that a function knows is no input
    ]


def _exchangeable(node: ast.AST) -> Iterator[list[str]]:
    if isinstance(node, ast.FunctionDef):
        yield [argument.arg for argument in node.args.args]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
        yield [found.id for found in node.targets[0].elts if isinstance(found, ast.Name)]
    elif isinstance(node, ast.Assign) and _RENAMES.fullmatch(ast.unparse(node.value)):
        yield [*tensors_in(node.value), ast.unparse(node.targets[0])]


def _rename(tree: ast.AST, name: str, other: str) -> None:
    for node in _names(tree):
        if node.id == name and isinstance(node.ctx, ast.Load):
            node.id = other


def _by_position(call: ast.Call) -> bool:
    arguments, keywords = call.args[1], call.args[2]
    assert isinstance(arguments, ast.Tuple)
    assert isinstance(keywords, ast.Dict)
    return not keywords.keys and bool(arguments.elts) and all(
        isinstance(given, ast.Name) for given in arguments.elts
    )  # fmt: skip


def _call_by_position(call: ast.Call, region: ast.FunctionDef) -> None:
    """The region gets its tensors one by one, and makes of them what it was given before."""
    arguments, keywords = call.args[1], call.args[2]
    assert isinstance(arguments, ast.Tuple)
    assert isinstance(keywords, ast.Dict)
    if _unpacked(call, region):
        return
    names = [argument.arg for argument in region.args.args]
    given = dict(zip(names, arguments.elts, strict=False))
    given |= {str(key.value): value for key, value in zip(keywords.keys, keywords.values, strict=True)
              if isinstance(key, ast.Constant)}  # fmt: skip
    tensors = list(dict.fromkeys(name for value in given.values() for name in tensors_in(value)))
    reached = reached_by(region)
    tensors = tensors or [name for name in tensors_in(region) if name in reached and name[0] in "xv"]
    made = [
        _assign(ast.Name(name, ast.Store()), value)
        for name, value in given.items()
        if ast.unparse(value) != name
    ]
    region.args.args = [ast.arg(name) for name in tensors]
    region.args.defaults = []
    region.body[:0] = made
    call.args[1] = ast.Tuple([ast.Name(name, ast.Load()) for name in tensors], ast.Load())
    call.args[2] = ast.Dict([], [])


def _unpacked(call: ast.Call, region: ast.FunctionDef) -> bool:
    """Pass what a region takes out of one container; False where that is not all it does with it."""
    first, given = region.body[0], [node.id for node in _names(call.args[1])]
    if len(region.args.args) != 1 or not isinstance(first, ast.Assign) or len(region.body) == 1:
        return False
    box = region.args.args[0].arg
    taken = [node.id for node in _names(first.targets[0]) if not node.id.startswith("_")]
    if ast.unparse(region).count(box) != 1 + ast.unparse(first.value).count(box):
        return False
    given = [name for name in given if _TENSOR.fullmatch(name)]
    if not isinstance(first.targets[0], ast.Tuple) or len(given) != len(taken):
        return False
    del region.body[0]
    region.args.args = [ast.arg(name) for name in taken]
    call.args[1] = ast.Tuple([ast.Name(name, ast.Load()) for name in given], ast.Load())
    return True


def outputs(tree: ast.Module) -> list[Place]:
    """Outputs of regions to be given as tensors alone, and to be left out."""
    functions = _functions(tree) | _blocks(tree)
    found: list[Place] = []
    for node in ast.walk(tree):
        if not is_run(node):
            continue
        assert isinstance(node, ast.Call)
        consumer = node.args[3]
        taking = functions.get(consumer.id) if isinstance(consumer, ast.Name) else None
        giving = functions.get(region_name(node))
        if taking and giving and isinstance(giving.body[-1], ast.Return):
            found += _output(giving.body[-1], taking.body)
    return found


def _output(last: ast.Return, body: list[ast.stmt]) -> Iterator[Place]:
    first = body[0]
    if last.value is None or not isinstance(first, ast.Assign):
        return
    given = [node.id for node in _names(last.value)]
    target = first.targets[0]
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    taken = [node.id for node in targets if isinstance(node, ast.Name) and not node.id.startswith("_")]
    if len(given) != len(taken) or not given:
        return
    if not isinstance(last.value, ast.Name):
        yield Place(_give, last, body, given, taken)
    if isinstance(last.value, (ast.Dict, ast.List)) and ast.unparse(last.value) != f"[{given[0]}]":
        yield Place(_give_list, last, body, given[0], taken[0])
    if len(given) > 1:
        for number in range(len(given)):
            rest = [name for place, name in enumerate(given) if place != number]
            left = [name for place, name in enumerate(taken) if place != number]
            yield Place(_give, last, body, rest, left)


def _give(last: ast.Return, body: list[ast.stmt], given: list[str], taken: list[str]) -> None:
    """`return (a, b)`, and `c, d = out` in the consumer; one output goes by itself."""
    last.value = _packed(given, ast.Load())
    body[0] = _assign(_packed(taken, ast.Store()), ast.Name("out", ast.Load()))


def _give_list(last: ast.Return, body: list[ast.stmt], given: str, taken: str) -> None:
    """`return [a]`, and `c, = out` in the consumer."""
    last.value = ast.List([ast.Name(given, ast.Load())], ast.Load())
    target = ast.Tuple([ast.Name(taken, ast.Store())], ast.Store())
    body[0] = _assign(target, ast.Name("out", ast.Load()))


def _packed(names: list[str], context: ast.expr_context) -> ast.expr:
    made = [ast.Name(name, context) for name in names]
    return made[0] if len(made) == 1 else ast.Tuple(list(made), context)
