"""What a program's source does, in words: programs that differ for one cause share them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from ckpt_conformance.fuzz.program import Program

_PLUMBING = frozenset({
    "run", "note", "meet", "leaf", "index", "hear", "sin", "apply", "append", "cat", "mult", "add", "Box",
    "manual_seed", "requires_grad", "nn", "functional", "KeyError", "grad", "float32", "__enter__",
    "__exit__", "range", "sum",
})  # fmt: skip
"""Names that say nothing: the simplest program has most of them."""

_TENSOR = re.compile(r"[xvcwi]\d+")

_SETTERS = ("set_default_device", "set_default_dtype", "set_autocast_cache_enabled")

RANDOM = frozenset({"dropout", "rand_like", "alpha_dropout", "rrelu", "rand"})
"""Operations that draw from a generator."""


_BLOCKS = (
    (
        "a second run that differs",
        {"wavering", "begun", "expected", "wavers", "right", "runs"},
        {"autograd", "backward", "clear", "detach", "double", "equal", "exp", "fork_rng", "isinstance", "len",
         "random", "requires_grad_", "wavering", "wavers"},
    ),
    (
        "a region that keeps a tensor, with a backward of its own",
        {"caching", "stash", "start", "other"},
        {"backward", "detach", "exp", "is_leaf", "requires_grad_", "update"},
    ),
)  # fmt: skip
"""What else a program may do than run regions: in words, the names that its lines have, and what they call.

See `wavering` and `around.caching_region`.
"""


@lru_cache(maxsize=256)
def traits(program: Program) -> frozenset[str]:
    """What a program does beyond the simplest one, read off its source.

    Among them are the names of all that it calls, how its regions take their inputs and give their outputs,
    how leaves differ from plain ones, the plan of the backward, and autocast.
    """
    lines = (*program.setup, *program.step)
    words = Counter(re.findall(r"\w+", "\n".join(program.step)))
    found = {word for line in _statements(ast.parse("\n".join(lines))) for word in _said(line)}
    if words["__enter__"] != words["__exit__"] or any(words[name] % 2 for name in _SETTERS):
        found.add("a mode that is not left")
    if program.plan != "once":
        found.add(f"backward: {program.plan}")
    if program.autocast:
        found.add("autocast in backward" if program.autocast == "backward" else "autocast around it")
    return frozenset(found) - _PLUMBING


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a program, those in the mode that it runs in one by one."""
    for statement in tree.body:
        if isinstance(statement, ast.Try) and statement.finalbody:
            yield from (*statement.body, *statement.finalbody)
        else:
            yield statement


def _said(statement: ast.stmt) -> set[str]:
    """What one statement says."""
    nodes = list(ast.walk(statement))
    names = {node.id for node in nodes if isinstance(node, ast.Name)} | {getattr(statement, "name", "")}
    found = {word for node in nodes for word in _of(node)}
    for what, own, words in _BLOCKS:
        if own & names:
            return found - words | {what}
    return found


def _of(node: ast.AST) -> Iterator[str]:
    """What one node says: names that are not the program's own, and how regions are run."""
    if isinstance(node, ast.Attribute):
        of = node.value.id if isinstance(node.value, ast.Name) else ""
        if of != "box":
            yield node.attr
        if node.attr == "apply":
            yield of  # a custom function
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.IfExp):
        if isinstance(node.test, ast.Attribute) and node.test.attr == "requires_grad":
            yield "reads requires_grad"
    elif isinstance(node, ast.BinOp):
        if not isinstance(node.left, ast.Constant):
            yield type(node.op).__name__.lower()
    elif isinstance(node, ast.keyword):
        if node.arg == "grad":
            yield "an input without a gradient"
    elif isinstance(node, ast.Assign):
        if isinstance(node.targets[0], ast.Subscript):
            yield "an entry is replaced"
    elif isinstance(node, ast.FunctionDef) and not node.name.startswith("consumer"):
        yield from _region(node)


def _of_call(node: ast.Call) -> Iterator[str]:
    if not isinstance(node.func, ast.Name):
        return
    yield "an input without a gradient" if node.func.id == "index" else node.func.id
    if is_run(node):
        yield from _call(node)


def is_run(node: ast.AST) -> bool:
    """Whether a node runs a region: `run(region, args, kwargs, consumer)`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run"


def region_name(call: ast.AST) -> str:
    """The name of the function that a `run(...)` runs, perhaps as `Called(name)`."""
    assert isinstance(call, ast.Call)
    given = call.args[0]
    if isinstance(given, ast.Call):
        given = given.args[0]
    return given.id if isinstance(given, ast.Name) else ""


def _call(call: ast.AST) -> Iterator[str]:
    assert isinstance(call, ast.Call)
    arguments, keywords = call.args[1], call.args[2]
    assert isinstance(arguments, ast.Tuple)
    if any(isinstance(given, (ast.Tuple, ast.List, ast.Dict, ast.Call)) for given in arguments.elts):
        yield "arguments in containers"
    if any(isinstance(given, ast.Constant) for given in arguments.elts):
        yield "arguments that are no tensors"
    names = [node.id for node in ast.walk(arguments) if isinstance(node, ast.Name)]
    if len(set(names)) < len(names):
        yield "an argument is given twice"
    if not names:
        yield "no tensor among the arguments"
    if isinstance(keywords, ast.Dict) and keywords.keys:
        yield "keyword arguments"
        yield from (
            f"a keyword {key.value!r}"
            for key in keywords.keys
            if isinstance(key, ast.Constant) and str(key.value).isalpha() and key.value != "scale"
        )


def _region(region: ast.FunctionDef) -> Iterator[str]:
    given = _with_views(region, {argument.arg for argument in region.args.args})
    yield from ("a parameter by closure" if name[0] == "w" else "a closure" for name in reached_by(region))
    for node in ast.walk(region):
        if is_run(node):
            yield "nested regions"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _in_place(node.func):
            where = node.func.value
            if isinstance(where, ast.Name) and where.id in given:
                yield "an argument is changed in place"
    last = region.body[-1]
    if isinstance(last, ast.Return) and last.value is not None:
        if lent_outputs(region):
            yield "a region returns a tensor of the caller's"
        yield from _returned(last.value)
    elif not isinstance(last, ast.Raise):
        yield _NO_OUTPUT


def _with_views(region: ast.FunctionDef, names: set[str]) -> set[str]:
    """The names, and what a region binds to them, to views of them and to what they contain."""
    for statement in region.body:
        names = names | _taken_of(statement, names)
    return names


def reached_by(region: ast.FunctionDef) -> set[str]:
    """The names of the tensors that a region reaches by closure."""
    bound = {name for node in ast.walk(region) for name in _bound(node)}
    read = {node.id for node in ast.walk(region) if isinstance(node, ast.Name)}
    return {name for name in read - bound if _TENSOR.fullmatch(name)}


def lent_outputs(region: ast.FunctionDef) -> list[str]:
    """The names of what a region returns and has not made: tensors of its caller's, and views of them."""
    last = region.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return []
    lent = _with_views(region, {argument.arg for argument in region.args.args} | reached_by(region))
    returned = [given.id for given in _entries(last.value) if isinstance(given, ast.Name)]
    return [name for name in dict.fromkeys(returned) if name in lent]


_NO_OUTPUT = "no tensor among the outputs"

VIEWS = frozenset({
    "reshape", "transpose", "split", "chunk", "narrow", "expand", "diagonal", "as_strided", "unfold", "real",
    "imag", "view_as_real", "conj", "unsqueeze", "view_as", "detach", "permute",
})  # fmt: skip
"""Operations that give views of a tensor."""


def is_view(value: ast.expr) -> bool:
    """Whether an expression gives a view, by its outermost operation."""
    if isinstance(value, ast.Call):
        value = value.func
    if isinstance(value, ast.Subscript):
        return True
    return isinstance(value, ast.Attribute) and value.attr in VIEWS


def _taken_of(node: ast.stmt, own: set[str]) -> set[str]:
    """The names that a statement binds to one of `own`, to a view of it, or to what it contains."""
    if not isinstance(node, ast.Assign) or not _takes(node.value):
        return set()
    of = {found.id for found in ast.walk(node.value) if isinstance(found, ast.Name)}
    return {name for target in node.targets for each in ast.walk(target) for name in _bound(each) if of & own}


def _takes(value: ast.expr) -> bool:
    """Whether an expression makes no tensor: it gives some that are there, or views of them."""
    if isinstance(value, (ast.List, ast.Tuple)):
        return all(_takes(each) for each in value.elts)
    if isinstance(value, ast.Starred):
        return _takes(value.value)
    if isinstance(value, ast.Attribute) and ast.unparse(value.value) == "box":
        return True
    return isinstance(value, ast.Name) or is_view(value)


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg


def _in_place(method: ast.Attribute) -> bool:
    return method.attr.endswith("_") and not method.attr.endswith("__") and method.attr != "requires_grad_"


def _returned(value: ast.expr) -> Iterator[str]:
    tensors = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    if len(tensors) > 1:
        yield "several outputs"
    if isinstance(value, (ast.List, ast.Dict)):
        yield "outputs in a list or dict"
    if isinstance(value, ast.Tuple) and len(value.elts) == 1:
        yield "outputs in a tuple of one"
    if any(isinstance(given, ast.Constant) for given in _entries(value)):
        yield "outputs that are no tensors"
    if not tensors:
        yield _NO_OUTPUT


def _entries(value: ast.expr) -> Iterator[ast.expr]:
    inside = value.elts if isinstance(value, (ast.Tuple, ast.List)) else ()
    inside = value.values if isinstance(value, ast.Dict) else inside
    if not inside:
        yield value
    for given in inside:
        yield from _entries(given)
