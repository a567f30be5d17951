"""How a region takes its inputs and gives its outputs: positions, keywords, containers, closures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ckpt_conformance.fuzz.values import Scope, Value

PACKS = ("tuple", "dict", "list", "extras")


@dataclass(slots=True)
class Call:
    """One call of a region.

    Attributes:
        kind: Which way it is.
        arguments: The inputs as the region sees them.
        signature: Its parameter list.
        given: The arguments' tuple and the keywords' dict, as source text.
        lines: What the region begins with.
    """

    kind: str
    arguments: list[Value]
    signature: str
    given: str
    lines: list[str]


_Make: TypeAlias = Callable[[Scope, Sequence[str], list[Value]], tuple[str, str, list[str]]]


def make_call(scope: Scope, inputs: Sequence[Value], number: str) -> Call:
    """Choose how a region gets its inputs; the values keep their form."""
    kind = scope.choose(CALLS)
    scope.features.add(f"call-{kind}")
    arguments = [
        replace(found, name=f"a{number}_{place}", fresh=False, own=False)
        for place, found in enumerate(inputs)
    ]
    signature, given, lines = _CALLS[kind](scope, [value.name for value in inputs], arguments)
    return Call(kind, arguments, signature, given, lines)


def _names(values: Sequence[Value]) -> str:
    return ", ".join(value.name for value in values)


def _positional(_scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    return _names(arguments), f"({', '.join(given)},), {{}}", []


def _keyword(scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    """All but the first by keyword, and a factor that has a default, perhaps named like an option."""
    factor = scope.choose(("scale", "scale", "debug"))
    if factor == "debug":
        scope.features.add("names-an-option")
    pairs = [f"{argument.name!r}: {name}" for argument, name in zip(arguments[1:], given[1:], strict=True)]
    keywords = ", ".join([*pairs, f"{factor!r}: 2"])
    first = arguments[0].name
    return f"{_names(arguments)}, {factor}=1", f"({given[0]},), {{{keywords}}}", [
        f"{first} = {first} * {factor}"
    ]  # fmt: skip


def _container(_scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    lines = [f"{_names(arguments)}, = [box['x'], *box['more'][0]]"]
    return "box", f"({{'x': {given[0]}, 'more': [[{', '.join(given[1:])}], 3]}},), {{}}", lines


def _rebound(scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    """A container whose entry the region replaces, as modules with a cache do."""
    signature, call, lines = _container(scope, given, arguments)
    return signature, call, ["box['x'] = box['x'] * 2", *lines]


def _dataclass(_scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    more = given[1] if len(given) > 1 else "None"
    names = [value.name for value in arguments] + ["_"] * (2 - len(arguments))
    return "box", f"(Box({given[0]}, {more}),), {{}}", [f"{', '.join(names)} = box.x, box.more"]


def _tuple(_scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    return "pair", f"(({', '.join(given)},),), {{}}", [f"{_names(arguments)}, = pair"]


def _extras(_scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    """Values that are no tensors: a flag, None, and a number that only an integer can stand for."""
    first = arguments[0]
    lines = [f"if flag: {first.name} = {first.name}.roll(number, 0)"] if first.shape else []
    return f"{_names(arguments)}, flag, none, number", f"({', '.join(given)}, True, None, 2), {{}}", lines


def _generator(scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    """A generator of the caller's, from which the region draws; by keyword behind two inputs."""
    first, name = arguments[0], scope.leaves.name("g")
    scope.lines.append(f"{name} = torch.Generator(DEVICE).manual_seed(5)")
    drawn = f"torch.rand({first.shape}, generator=generator, device=DEVICE, dtype=torch.float32)"
    lines = [f"{first.name} = {first.name} * {drawn}"] if first.real else []
    signature = f"{_names(arguments)}, generator"
    if len(given) == 1:
        return signature, f"({given[0]}, {name}), {{}}", lines
    scope.features.add("call-keyword")
    return signature, f"({', '.join(given)},), {{'generator': {name}}}", lines


def _none(scope: Scope, given: Sequence[str], arguments: list[Value]) -> tuple[str, str, list[str]]:
    """No tensor among the arguments: the region reaches everything by closure."""
    for value in arguments:
        value.name = scope.leaves.name("v")
    lines = [f"{value.name} = {name}.clone()" for value, name in zip(arguments, given, strict=True)]
    return scope.choose((("", "(), {}", lines), ("number", "(2,), {}", lines)))


_CALLS: Mapping[str, _Make] = {
    "positional": _positional, "keyword": _keyword, "container": _container, "extras": _extras,
    "none": _none, "tuple": _tuple, "dataclass": _dataclass, "rebound": _rebound, "generator": _generator,
}  # fmt: skip

CALLS = ("positional",) * 4 + tuple(_CALLS)[1:]
"""Every way to call; positions are what most regions take."""


def pack(scope: Scope, outputs: Sequence[Value], number: str) -> tuple[str, str]:
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
    if kind == "extras":
        return f"({', '.join(names)}, 3, None)", f"{taken}, _three, _none = out"
    opening, closing = ("(", ",)") if kind == "tuple" else ("[", "]")
    return f"{opening}{', '.join(names)}{closing}", f"{taken}, = out"
