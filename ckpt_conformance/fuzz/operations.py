"""The operations of generated programs: each takes values that fit and binds a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from ckpt_conformance.fuzz.values import Kind, Scope, Value

Operation: TypeAlias = Callable[[Scope], bool]
"""Adds a line to the scope; False where no value fits."""

FLOATING = frozenset({"float", "double", "complex"})


def _elementwise(
    template: str, scope: Scope, *, saves: bool = True, fresh: bool = True, real: bool = False
) -> bool:
    value = scope.pick(lambda found: found.real if real else found.kind in FLOATING)
    if value is None:
        return False
    if saves:
        value.fresh = False
    scope.bind(template.format(value.name), value.shape, value.kind, fresh=fresh, grad=value.grad)
    return True


def _binary(template: str, scope: Scope) -> bool:
    first = scope.pick(lambda found: found.kind in FLOATING)
    if first is None:
        return False
    second = scope.pick(lambda found: (found.shape, found.kind) == (first.shape, first.kind))
    assert second is not None
    first.fresh = second.fresh = False
    scope.bind(template.format(first.name, second.name), first.shape, first.kind)
    return True


def _matrix(template: str, scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float" and len(found.shape) >= 2)
    if value is None:
        return False
    value.fresh = False
    width, out = value.shape[-1], scope.choose((4, 6))
    weight, bias = scope.leaves.parameter(out, width), scope.leaves.parameter(out)
    scope.bind(template.format(value.name, weight, bias), (*value.shape[:-1], out))
    return True


def _autocast_matrix(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float" and len(found.shape) >= 2)
    if value is None:
        return False
    value.fresh = False
    width = value.shape[-1]
    weight = scope.leaves.parameter(width, width)
    enabled = scope.choose(("", ", enabled=False"))
    scope.lines.append(f"with torch.autocast('cpu', dtype=torch.bfloat16{enabled}):")
    scope.bind(f"({value.name} @ {weight}).float()", value.shape)
    scope.lines[-1] = f"    {scope.lines[-1]}"
    return True


def _norm(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float" and len(found.shape) >= 2)
    if value is None:
        return False
    value.fresh = False
    width = value.shape[-1]
    weight, bias = scope.leaves.parameter(width), scope.leaves.parameter(width)
    scope.bind(f"F.layer_norm({value.name}, ({width},), {weight}, {bias})", value.shape)
    return True


def _batch_norm(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float" and len(found.shape) == 2 and found.shape[0] > 1)
    if value is None:
        return False
    value.fresh = False
    scope.bind(f"F.batch_norm({value.name}, None, None, training=True)", value.shape)
    return True


def _conv(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float" and len(found.shape) == 3 and found.shape[-1] > 2)
    if value is None:
        return False
    value.fresh = False
    batch, channels, length = value.shape
    scope.bind(f"F.conv1d({value.name}, {scope.leaves.parameter(3, channels, 3)})", (batch, 3, length - 2))
    return True


def _attention(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float" and len(found.shape) == 3)
    if value is None:
        return False
    value.fresh = False
    query = ", ".join([value.name] * 3)
    scope.bind(f"F.scaled_dot_product_attention({query})", value.shape, fresh=False)
    return True


def _embedding(scope: Scope) -> bool:
    where = scope.pick(lambda found: found.kind == "int" and len(found.shape) < 3)
    if where is None:
        return False
    scope.bind(f"F.embedding({where.name} % 6, {scope.leaves.parameter(6, 4)})", (*where.shape, 4))
    return True


def _where(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.real)
    if value is None:
        return False
    mask = scope.bind(f"{value.name} > 0", value.shape, "bool", grad=False)
    scope.bind(f"torch.where({mask.name}, {value.name}, {value.name} * 0.5)", value.shape, value.kind)
    return True


def _argmax(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.real and len(found.shape) > 1)
    if value is None:
        return False
    scope.bind(f"{value.name}.argmax(-1)", value.shape[:-1], "int", grad=False)
    return True


def _convert(expression: str, wanted: Kind, kind: Kind, scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == wanted)
    if value is None:
        return False
    value.fresh = False
    scope.bind(expression.format(value.name), value.shape, kind, fresh=False)
    return True


def _as_real(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "complex" and len(found.shape) < 3)
    if value is None:
        return False
    value.fresh = False
    scope.bind(f"torch.view_as_real({value.name})", (*value.shape, 2), fresh=False)
    return True


def _mean(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.real and len(found.shape) > 1)
    if value is None:
        return False
    scope.bind(f"{value.name}.mean(-1)", value.shape[:-1], value.kind)
    return True


def _no_grad(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind in FLOATING)
    if value is None:
        return False
    scope.lines.append("with torch.no_grad():")
    scope.bind(f"{value.name} * 2", value.shape, value.kind, grad=False)
    scope.lines[-1] = f"    {scope.lines[-1]}"
    return True


def _hook(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.real and found.grad and found.name.startswith("v"))
    if value is None:
        return False
    scope.lines.append(f"if {value.name}.requires_grad: {value.name}.register_hook(lambda g: g * 2)")
    return True


def _in_place(template: str, scope: Scope, *, saves: bool = False) -> bool:
    value = scope.pick(lambda found: found.fresh and found.kind == "float" and len(found.shape) >= 1)
    if value is None:
        return False
    scope.lines.append(template.format(value.name))
    value.fresh = not saves
    return True


def _custom(name: str, scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float")
    if value is None:
        return False
    value.fresh = False
    scope.bind(f"{name}.apply({value.name})", value.shape, fresh=False, grad=value.grad)
    return True


def _view(make: Callable[[Value], tuple[str, tuple[int, ...]] | None], scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind in FLOATING and make(found) is not None)
    if value is None:
        return False
    expression, shape = make(value) or ("", ())
    value.fresh = False
    scope.bind(expression, shape, value.kind, fresh=False, grad=value.grad)
    return True


def _reshape(value: Value) -> tuple[str, tuple[int, ...]] | None:
    return (f"{value.name}.reshape(-1)", (value.size,)) if len(value.shape) > 1 else None


def _fold(value: Value) -> tuple[str, tuple[int, ...]] | None:
    fits = value.size % 2 == 0 and len(value.shape) < 3
    return (f"{value.name}.reshape(2, -1)", (2, value.size // 2)) if fits else None


def _transpose(value: Value) -> tuple[str, tuple[int, ...]] | None:
    if len(value.shape) < 2:
        return None
    return f"{value.name}.transpose(-1, -2)", (*value.shape[:-2], value.shape[-1], value.shape[-2])


def _split(value: Value) -> tuple[str, tuple[int, ...]] | None:
    if not value.shape or value.shape[0] % 2:
        return None
    half = value.shape[0] // 2
    return f"torch.split({value.name}, {half})[1]", (half, *value.shape[1:])


def _narrow(value: Value) -> tuple[str, tuple[int, ...]] | None:
    if not value.shape or value.shape[-1] < 2:
        return None
    return f"{value.name}.narrow(-1, 1, {value.shape[-1] - 1})", (*value.shape[:-1], value.shape[-1] - 1)


def _expand(value: Value) -> tuple[str, tuple[int, ...]] | None:
    fits = 1 <= len(value.shape) < 3
    return (
        (f"{value.name}.unsqueeze(0).expand(2, {', '.join(['-1'] * len(value.shape))})", (2, *value.shape))
        if fits
        else None
    )


def _diagonal(value: Value) -> tuple[str, tuple[int, ...]] | None:
    return (f"{value.name}.diagonal()", (min(value.shape),)) if len(value.shape) == 2 else None


def _select(value: Value) -> tuple[str, tuple[int, ...]] | None:
    return (f"{value.name}[-1]", value.shape[1:]) if len(value.shape) > 1 else None


VIEWS: Mapping[str, Operation] = {
    name: partial(_view, make)
    for name, make in {
        "reshape": _reshape, "fold": _fold, "transpose": _transpose, "split": _split, "narrow": _narrow,
        "expand": _expand, "diagonal": _diagonal, "select": _select,
    }.items()
}  # fmt: skip
"""Operations that give views of a value."""

SAVING: Mapping[str, Operation] = {
    "sin": partial(_elementwise, "{}.sin()"),
    "tanh": partial(_elementwise, "{}.tanh()", saves=False, fresh=False),
    "multiply": partial(_binary, "{} * {}"),
    "linear": partial(_matrix, "F.linear({}, {}, {})"),
    "save-views": partial(_custom, "SaveViews"),
    "gelu": partial(_elementwise, "F.gelu({})", real=True),
    "layer-norm": _norm,
}
"""Operations that save their input or output: what a consumer is made of, besides views."""

OPERATIONS: Mapping[str, Operation] = {
    **SAVING,
    "scale": partial(_elementwise, "{} * 1.5", saves=False),
    "add": partial(_binary, "{} + {}"),
    "exp": partial(_elementwise, "({} * 0.1).exp()", saves=False, fresh=False),
    "relu": partial(_elementwise, "{}.relu()", saves=False, fresh=False, real=True),
    "softmax": partial(_elementwise, "{}.softmax(-1)", saves=False, fresh=False, real=True),
    "dropout": partial(_elementwise, "F.dropout({}, 0.5)", saves=False, real=True),
    "noise": partial(_elementwise, "{0} * torch.rand_like({0})", real=True),
    "rrelu": partial(_elementwise, "F.rrelu({}, training=True)", fresh=False, real=True),
    "clone": partial(_elementwise, "{}.clone()", saves=False),
    "detach": partial(_elementwise, "{}.detach()", fresh=False),
    "batch-norm": _batch_norm,
    "conv": _conv,
    "attention": _attention,
    "embedding": _embedding,
    "where": _where,
    "argmax": _argmax,
    "mean": _mean,
    "double": partial(_convert, "{}.double()", "float", "double"),
    "float": partial(_convert, "{}.float()", "double", "float"),
    "complex": partial(_convert, "torch.complex({0}, {0} * 2)", "float", "complex"),
    "as-real": _as_real,
    "no-grad": _no_grad,
    "autocast": _autocast_matrix,
    "hook": _hook,
    "add-in-place": partial(_in_place, "{}.add_(1)"),
    "scale-in-place": partial(_in_place, "{}.mul_(2)"),
    "relu-in-place": partial(_in_place, "{}.relu_()", saves=True),
    "view-in-place": partial(_in_place, "{}[..., 0].mul_(3)"),
    "save-output": partial(_custom, "SaveOutput"),
    "read-twice": partial(_custom, "ReadTwice"),
    **VIEWS,
}
"""Every operation by name."""
