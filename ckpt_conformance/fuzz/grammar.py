"""The grammar: programs that are valid by construction, from a source of choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ckpt_conformance.fuzz.operations import OPERATIONS, SAVING
from ckpt_conformance.fuzz.plain_operations import VIEWS, Operation
from ckpt_conformance.fuzz.program import PLANS, Plan, Program
from ckpt_conformance.fuzz.values import Choose, Leaves, Scope, Shape, Value

SHAPES: tuple[Shape, ...] = ((4, 6), (6, 4), (2, 4, 6), (4, 4))
"""The inputs' shapes: small, of even extents, so that most operations find a value that fits."""

INPUTS = ("leaf", "leaf", "leaf", "frozen", "index", "complex", "double", "transposed", "offset")
CALLS = ("positional", "positional", "keyword", "container", "extras")
PACKS = ("tuple", "dict", "list")
DEEPEST = 3
"""How deep regions may nest."""

_CONSUMER: Mapping[str, Operation] = {**SAVING, **VIEWS}


def make_program(choose: Choose) -> Program:
    """One program; the first option of every choice is the simplest."""
    leaves = Leaves()
    scope = Scope(choose, leaves)
    scope.values = [_input(scope) for _ in range(choose((1, 2, 3)))]
    _planned_error(scope)
    results = [_run_region(scope, level=1) for _ in range(choose((1, 1, 1, 2)))]
    made = [value.name for value, _ in results]
    result = f"torch.cat([{', '.join(made)}])" if len(made) > 1 and choose((False, True)) else made[-1]
    heard = _heard_leaves(scope)
    plan, autocast = _plan(scope), choose((False, False, False, True))
    ambient = {"ambient-autocast"} if autocast else set()
    return Program(
        setup=tuple(leaves.lines),
        leaves=tuple(leaves.names),
        step=(*heard, *scope.lines, f"result = {result}"),
        plan=plan,
        autocast=autocast,
        depth=max(depth for _, depth in results),
        features=frozenset({*leaves.features, f"plan-{plan}", *ambient}),
    )


def _plan(scope: Scope) -> Plan:
    without = {"second"} if "attention" in scope.features else set()  # it has no second derivative
    return scope.choose(("once", "once", *(plan for plan in PLANS if plan not in without)))


def _planned_error(scope: Scope) -> None:
    """A region that raises, which the step survives."""
    given = next((value.name for value in scope.values if value.real), None)
    if given is None or not scope.choose((False,) * 7 + (True,)):
        return
    scope.features.add("planned-error")
    _define(scope, "failing(x)", ["y = (x * 1.5).sin()", "note(y)", "raise KeyError('planned')"])
    scope.lines += [
        "try:",
        f"    run(failing, ({given},), {{}}, meet)",
        "except KeyError:",
        "    hear('the planned error')()",
    ]


def _heard_leaves(scope: Scope) -> list[str]:
    """Counted hooks on a leaf and on its gradient accumulator."""
    if not scope.choose((False,) * 5 + (True,)):
        return []
    scope.features.add("hooks-on-a-leaf")
    name = scope.choose(tuple(scope.leaves.names))
    return [
        f"if {name}.requires_grad:",
        f"    {name}.register_hook(hear('hook on {name}'))",
        f"    {name}.register_post_accumulate_grad_hook(hear('{name} accumulates'))",
    ]


def _input(scope: Scope) -> Value:
    """An input of a region: a leaf, or a view of one."""
    leaves, kind, shape = scope.leaves, scope.choose(INPUTS), scope.choose(SHAPES)
    leaves.features.add(f"input-{kind}")
    if kind == "index":
        return leaves.index(shape[:2], below=6)
    if kind == "transposed":
        leaf = leaves.leaf("x", shape)
        turned = (*shape[:-2], shape[-1], shape[-2])
        return scope.bind(f"{leaf.name}.transpose(-1, -2)", turned, fresh=False)
    if kind == "offset":
        leaf = leaves.leaf("x", (shape[0] + 1, *shape[1:]))
        return scope.bind(f"{leaf.name}[1:]", shape, fresh=False)
    dtype = {"complex": "complex64", "double": "float64"}.get(kind, "float32")
    return leaves.leaf("x", shape, grad=kind != "frozen", dtype=dtype)


def _run_region(scope: Scope, level: int) -> tuple[Value, int]:
    """Define a region and its consumer and run them; gives the result and how deep the regions in it nest."""
    inputs = [scope.choose(tuple(reversed(scope.values))) for _ in range(scope.choose((1, 1, 2)))]
    number = scope.leaves.name("")
    arguments = [replace(found, name=f"a{number}_{place}", fresh=False) for place, found in enumerate(inputs)]
    signature, call, unpacking = _call(scope, inputs, arguments)
    for value in inputs:
        value.fresh = False  # a later run of the region has to see it as it is
    body = scope.inner(arguments)
    _capture(scope, body)
    depth = _body(body, level)
    outputs = _outputs(body)
    pack, unpack = _pack(scope, outputs, number)
    noted = ", ".join(value.name for value in body.values if value.name.startswith("v"))
    _define(
        scope, f"region{number}({signature})", [*unpacking, *body.lines, f"note({noted})", f"return {pack}"]
    )
    return _consumer(scope, outputs, number, unpack, call), depth


def _capture(scope: Scope, body: Scope) -> None:
    """Let the region reach a value of the surrounding function by closure."""
    outer = [value for value in reversed(scope.values) if value.real]
    if not outer or not scope.choose((False,) * 7 + (True,)):
        return
    scope.features.add("captures")
    value = scope.choose(tuple(outer))
    value.fresh = False
    # never the value itself: a region that returns it would have its owner's memory discarded
    body.bind(f"{value.name}.sin()", value.shape, value.kind, grad=value.grad)


def _call(scope: Scope, inputs: Sequence[Value], arguments: Sequence[Value]) -> tuple[str, str, list[str]]:
    """The region's parameter list, the arguments of the call, and the lines that unpack them."""
    kind = scope.choose(CALLS)
    scope.features.add(f"call-{kind}")
    names, given = [value.name for value in arguments], [value.name for value in inputs]
    if kind == "keyword":
        pairs = ", ".join(f"{name!r}: {value}" for name, value in zip(names[1:], given[1:], strict=True))
        return f"{', '.join(names)}, k=None", f"({given[0]},), {{{pairs or repr('k') + ': 2'}}}", []
    if kind == "container":
        lines = [f"{', '.join(names)}, = [box['x'], *box['more'][0]]"]
        return "box", f"({{'x': {given[0]}, 'more': [[{', '.join(given[1:])}], 3]}},), {{}}", lines
    if kind == "extras":
        return f"{', '.join(names)}, flag, none", f"({', '.join(given)}, True, None), {{}}", []
    return ", ".join(names), f"({', '.join(given)},), {{}}", []


def _body(scope: Scope, level: int) -> int:
    """Fill a region with operations, and with regions while there is depth left."""
    depth = level
    for _ in range(scope.choose((1, 2, 3, 5, 8))):
        name = scope.choose(tuple(OPERATIONS) + (("region", "region") if level < DEEPEST else ()))
        if name == "region":
            scope.features.add("nested")
            depth = max(depth, _run_region(scope, level + 1)[1])
        elif OPERATIONS[name](scope):
            scope.features.add(name)
    return depth


def _outputs(scope: Scope) -> list[Value]:
    """What the region returns: its newest value, and perhaps others, among them its inputs."""
    outputs = [scope.values[-1]]
    outputs += [scope.choose(tuple(reversed(scope.values))) for _ in range(scope.choose((0, 0, 1, 2)))]
    if len(outputs) > 1:
        scope.features.add("several-outputs")
    if any(value.name.startswith("a") for value in outputs):
        scope.features.add("returns-input")
    return outputs


def _pack(scope: Scope, outputs: Sequence[Value], number: str) -> tuple[str, str]:
    """The expression that the region returns, and the line by which the consumer takes it apart."""
    names = [value.name for value in outputs]
    taken = ", ".join(f"o{number}_{place}" for place in range(len(outputs)))
    if len(outputs) == 1 and scope.choose((True, True, False)):
        return names[0], f"{taken} = out"
    kind = scope.choose(PACKS)
    scope.features.add(f"returns-{kind}")
    if kind == "dict":
        return f"{{'y': {names[0]}, 'more': ({', '.join([*names[1:], 'None'])},)}}", (
            f"{taken}, = [out['y'], *out['more'][:-1]]"
        )
    opening, closing = ("(", ",)") if kind == "tuple" else ("[", "]")
    return f"{opening}{', '.join(names)}{closing}", f"{taken}, = out"


def _consumer(scope: Scope, outputs: Sequence[Value], number: str, unpack: str, call: str) -> Value:
    """Define what runs downstream, and run the region through it."""
    body = scope.inner(
        [replace(value, name=f"o{number}_{place}", fresh=False) for place, value in enumerate(outputs)]
    )
    for _ in range(scope.choose((1, 1, 2, 3))):
        name = scope.choose(tuple(_CONSUMER))
        if _CONSUMER[name](body):
            scope.features.add(f"consumer-{name}")
    made = [value for value in body.values if value.name.startswith("v")] or _copied(body)
    met = made[-1:] if len(made) == 1 or scope.choose((True, False)) else made
    size = sum(value.size * (2 if value.kind == "complex" else 1) for value in met)
    names = ", ".join(value.name for value in met)
    _define(scope, f"consumer{number}(out)", [unpack, *body.lines, f"return meet({names})"])
    if scope.choose((True,) * 11 + (False,)):
        return scope.bind(f"run(region{number}, {call}, consumer{number})", (size,), "double", fresh=False)
    scope.features.add("region-under-no-grad")
    scope.lines.append("with torch.no_grad():")
    result = scope.bind(
        f"run(region{number}, {call}, consumer{number})", (size,), "double", fresh=False, grad=False
    )
    scope.lines[-1] = f"    {scope.lines[-1]}"
    return result


def _copied(scope: Scope) -> list[Value]:
    """A new tensor for each output, where no operation of the consumer fitted."""
    return [scope.bind(f"{value.name} * 1", value.shape, value.kind) for value in list(scope.values)]


def _define(scope: Scope, signature: str, body: Sequence[str]) -> None:
    scope.lines += [f"def {signature}:", *(f"    {line}" for line in body)]
