"""The grammar: programs that are valid by construction, from a source of choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ckpt_conformance.fuzz import around, blocks, modes, wavering
from ckpt_conformance.fuzz.calls import Call, make_call, pack
from ckpt_conformance.fuzz.operations import OPERATIONS, SAVING
from ckpt_conformance.fuzz.plain_operations import VIEWS, Operation
from ckpt_conformance.fuzz.program import PLANS, Autocast, Plan, Program
from ckpt_conformance.fuzz.values import Choose, Leaves, Scope, Shape, Value

SHAPES: tuple[Shape, ...] = ((4, 6), (2, 4, 6), (6, 4), (4, 4), (2, 6, 4))
"""The inputs' shapes: small, of even extents, so that most operations find a value that fits."""

INPUTS = (
    "leaf", "leaf", "leaf", "frozen", "index", "complex", "double", "transposed", "offset", "rowless"
)  # fmt: skip
_AUTOCASTS: tuple[Autocast, ...] = (*("",) * 8, "bfloat16", "bfloat16", "float16", "backward")
DEEPEST = 3
"""How deep regions may nest."""

_CONSUMER: Mapping[str, Operation] = {**SAVING, **VIEWS}
_OFTEN = (
    "linear", "linear", "reads-requires-grad", "asks-who-needs-a-gradient", "conv", "attention", "noise",
    "as-real", "conjugate", "real-part", "add-in-place", "scale-in-place", "relu-in-place", "view-in-place",
    "count",
)  # fmt: skip
"""What fits seldom, or tells much, is tried more often."""
_IN_REGIONS = (*OPERATIONS, *_OFTEN, "region", "region", "region", "inner-backward")


def make_program(choose: Choose) -> Program:
    """One program; the first option of every choice is the simplest."""
    leaves = Leaves()
    scope = Scope(choose, leaves)
    scope.values = [_input(scope) for _ in range(choose((1, 2, 3)))]
    leaves.change = choose(around.CHANGES)
    modes.choose_mode(scope)
    wavering.begin(scope)
    around.caching_region(scope)
    around.planned_error(scope)
    around.silent_region(scope)
    results = [_run_region(scope, level=1) for _ in range(choose((1, 1, 1, 2)))]
    made = [value.name for value, _ in results]
    result = f"torch.cat([{', '.join(made)}])" if len(made) > 1 and choose((False, True)) else made[-1]
    plan, autocast = _plan(scope), _autocast(scope)
    begin, end = _around(scope, autocast)
    result_lines = [f"result = {result}", *around.island(scope, autocast)]
    lines = modes.within(scope, [*scope.lines, *result_lines])
    return Program(
        setup=tuple(leaves.lines),
        leaves=tuple(leaves.names),
        step=(*begin, *lines, *wavering.end(scope), *end),
        plan=plan,
        autocast=autocast,
        depth=max(depth for _, depth in results),
        features=frozenset({*leaves.features, f"plan-{plan}"}),
    )


def _plan(scope: Scope) -> Plan:
    without = {"second"} if "attention" in scope.features else set()  # it has no second derivative
    return scope.choose(("once", "once", *(plan for plan in PLANS if plan not in without)))


def _autocast(scope: Scope) -> Autocast:
    without = {"float16"} if "rrelu" in scope.features else set()  # it has no kernel for that on the CPU
    return scope.choose(tuple(dtype for dtype in _AUTOCASTS if dtype not in without))


def _around(scope: Scope, autocast: Autocast) -> tuple[list[str], list[str]]:
    """The lines before and after the regions."""
    hooks, removal = around.heard_leaves(scope)
    mode, reset = around.anomaly(scope)
    warm = []
    if autocast:
        scope.features.add("backward-autocast" if autocast == "backward" else "ambient-autocast")
        warm = around.warm_weights(scope)
    return [*hooks, *mode, *warm], [*removal, *reset]


def _input(scope: Scope) -> Value:
    """An input of a region: a leaf, or a view of one."""
    leaves, kind, shape = scope.leaves, scope.choose(INPUTS), scope.choose(SHAPES)
    leaves.features.add(f"input-{kind}")
    if kind == "index":
        return leaves.index(shape[:2], below=6)
    if kind == "rowless":
        shape = (0, shape[-1])
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
    noisy = level > 1 and scope.choose((False, False, True))
    if noisy:
        _operate(scope, "noise")  # so that the region in it begins from another state of the generator
    inputs = [scope.choose(tuple(reversed(scope.values))) for _ in range(scope.choose((1, 1, 2)))]
    number = scope.leaves.name("")
    call = make_call(scope, inputs, number)
    for value in inputs:
        value.fresh = False  # a later run of the region has to see it as it is
    body = scope.inner(call.arguments)
    module = scope.choose((False,) * 6 + (True,))
    _capture(scope, body)
    _begin(body, call, level, noisy=noisy, module=module)
    depth = _body(body, level)
    outputs = _outputs(body)
    packed, unpack = pack(scope, outputs, number)
    noted = ", ".join(value.name for value in body.values if value.name.startswith("v"))
    ends = [f"note({noted})", f"return {packed}"]
    signature = f"self, {call.signature}" if module else call.signature
    _define(scope, f"region{number}({signature.rstrip(', ')})", [*call.lines, *body.lines, *ends])
    region = blocks.make(scope, number, top=level == 1) if module else _callable(scope, number)
    given = _in_turns(scope, call, inputs, module=module)
    result = _consumer(scope, outputs, number, unpack, f"{region}, {given}", top=level == 1)
    if module and level == 1:
        blocks.look(scope, region)
    if level == 1 and scope.leaves.change == "input" and inputs[0].real:
        around.change(scope, inputs[0])
    return result, depth


def _begin(body: Scope, call: Call, level: int, *, noisy: bool, module: bool) -> None:
    """What a region does first, because of what is around it."""
    if noisy:
        _operate(body, "noise")
    modes.notice(body)
    for _ in range(body.choose((1, 2)) if module else 0):
        blocks.use(body)
    _change_argument(body, call, level)


def _callable(scope: Scope, number: str) -> str:
    """The region as it is passed: a function, or a callable that is none."""
    return f"Called(region{number})" if scope.choose((False,) * 7 + (True,)) else f"region{number}"


def _in_turns(scope: Scope, call: Call, inputs: Sequence[Value], *, module: bool) -> str:
    """The arguments; those of a module with a state, which is run in a loop, change from turn to turn."""
    if not (module and call.kind == "positional" and len(inputs) == 2 and inputs[1].real):
        return call.given
    scope.features.add("module-in-turns")
    return f"({inputs[0].name}, {inputs[1].name} * turn), {{}}"


def _change_argument(body: Scope, call: Call, level: int) -> None:
    # what a dataclass hides is the region's own affair, like a counter in a closure
    if (
        level == 1
        and body.leaves.change == "argument"
        and call.kind != "dataclass"
        and call.arguments[0].real
    ):
        around.change(body, call.arguments[0])


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


def _body(scope: Scope, level: int) -> int:
    """Fill a region with operations, and with regions while there is depth left."""
    depth = level
    if any(value.kind == "int" for value in scope.values):
        _operate(scope, scope.choose(("embedding", "index")))  # else a region seldom uses its indices
    if any(value.kind == "float" and not value.grad for value in scope.values):
        _operate(scope, scope.choose(("asks-who-needs-a-gradient", "reads-requires-grad")))
    for _ in range(scope.choose((1, 1, 2, 3, 5, 8))):
        name = scope.choose(_IN_REGIONS if level < DEEPEST else (*OPERATIONS, *_OFTEN))
        if name == "region":
            scope.features.add("nested")
            depth = max(depth, _run_region(scope, level + 1)[1])
        elif name == "inner-backward":
            depth = max(depth, _inner_backward(scope, level))
        else:
            _operate(scope, name)
    if level == 1 and scope.leaves.change == "inside":
        _change_inside(scope)
    return depth


def _operate(scope: Scope, name: str) -> None:
    if OPERATIONS[name](scope):
        scope.features.add(name)


def _change_inside(scope: Scope) -> None:
    """Save a value of the region's own, and change it."""
    value = scope.pick(lambda found: found.own and found.kind == "float")
    if value is not None:
        scope.bind(f"{value.name}.sin()", value.shape)
        around.change(scope, value)


def _inner_backward(scope: Scope, level: int) -> int:
    """A gradient that the region itself asks for, of a region in it, as a gradient penalty does."""
    value = scope.pick(lambda found: found.kind == "float")
    if value is None:
        return level
    scope.features.add("inner-backward")
    value.fresh = False
    start = scope.bind(f"{value.name}.detach().requires_grad_()", value.shape, fresh=False)
    scope.values.remove(start)  # it is a leaf that no caller knows
    inner = scope.inner([start])
    result, depth = _run_region(inner, level + 1)
    gradient = f"torch.autograd.grad({result.name}.sum(), {start.name}, allow_unused=True)[0]"
    lines = [*inner.lines, f"penalty = {gradient} if {result.name}.requires_grad else None"]
    scope.lines += ["with torch.enable_grad():", *lines]
    scope.indent(len(lines))
    scope.bind(
        f"torch.zeros_like({start.name}) if penalty is None else penalty",
        value.shape,
        fresh=False,
        grad=False,
    )
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


def _consumer(
    scope: Scope, outputs: Sequence[Value], number: str, unpack: str, call: str, *, top: bool
) -> Value:
    """Define what runs downstream, and run the region through it."""
    body = scope.inner(
        [replace(value, name=f"o{number}_{place}", fresh=False) for place, value in enumerate(outputs)]
    )
    given = body.values[0]
    if top and given.real and scope.choose((False,) * 15 + (True,)):
        scope.features.add("gradient-kept")
        body.lines.append(f"keep({given.name!r}, {given.name})")
    for _ in range(scope.choose((1, 1, 2, 3))):
        name = scope.choose(tuple(_CONSUMER))
        if _CONSUMER[name](body):
            scope.features.add(f"consumer-{name}")
    made = [value for value in body.values if value.name.startswith("v")] or _copied(body)
    met = made[-1:] if len(made) == 1 or scope.choose((True, False)) else made
    size = sum(value.size * (2 if value.kind == "complex" else 1) for value in met)
    body.lines.append(f"met = meet({', '.join(value.name for value in met)})")
    if top and scope.leaves.change == "output" and given.real and outputs[0].own:
        around.change(body, given)
    _define(scope, f"consumer{number}(out)", [unpack, *body.lines, "return met"])
    return _run(scope, f"run({call}, consumer{number})", size, top=top)


def _run(scope: Scope, expression: str, size: int, *, top: bool) -> Value:
    """Bind what the consumer of a region returns, perhaps of several runs, or without gradients."""
    turns = 3 if "* turn)" in expression else scope.choose((1,) * 38 + (3, 25 if top else 2))
    if turns > 1:
        scope.features.add("runs-in-a-loop")
        expression = f"sum({expression} for turn in range({turns}))"
    within = scope.choose(("",) * 22 + ("no_grad", "no_grad", "inference_mode"))
    if not within:
        return scope.bind(expression, (size,), "double", fresh=False)
    scope.features.add(f"region-under-{within.replace('_', '-')}")
    scope.lines.append(f"with torch.{within}():")
    result = scope.bind(expression, (size,), "double", fresh=False, grad=False)
    scope.indent()
    if within == "inference_mode":
        scope.values.remove(result)
        return scope.bind(f"{result.name}.clone()", (size,), "double", grad=False)
    return result


def _copied(scope: Scope) -> list[Value]:
    """A new tensor for each output, where no operation of the consumer fitted."""
    return [scope.bind(f"{value.name} * 1", value.shape, value.kind) for value in list(scope.values)]


def _define(scope: Scope, signature: str, body: Sequence[str]) -> None:
    scope.lines += [f"def {signature}:", *(f"    {line}" for line in body)]
