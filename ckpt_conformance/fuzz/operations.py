"""The operations of generated programs: each takes values that fit and binds a new one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ckpt_conformance.fuzz.joining import JOINING
from ckpt_conformance.fuzz.plain_operations import FLOATING, VIEWS, Operation, binary, elementwise
from ckpt_conformance.fuzz.values import Kind, Scope, Value


def _matrix(template: str, scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float" and len(found.shape) >= 2, rowless=True)
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
    # torch's cache of casts does not tell half precisions apart
    scope.lines.append(f"with torch.autocast(DEVICE, dtype=torch.bfloat16, cache_enabled=False{enabled}):")
    scope.bind(f"({value.name}.float() @ {weight}).float()", value.shape)
    scope.indent()
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
    scope.bind(f"torch.view_as_real({value.name}.resolve_conj())", (*value.shape, 2), fresh=False)
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
    scope.bind(f"{value.name}.sin()", value.shape, value.kind, grad=False)
    scope.indent()
    return True


def _hook(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.real and found.grad and found.name.startswith("v"))
    if value is None:
        return False
    scope.lines.append(
        f"if {value.name}.requires_grad: {value.name}.register_hook(lambda g: None if g is None else g * 2)"
    )
    return True


def _enable_grad(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind in FLOATING)
    if value is None:
        return False
    value.fresh = False
    scope.lines += ["with torch.no_grad(), torch.enable_grad():"]
    scope.bind(f"{value.name}.sin()", value.shape, value.kind, grad=value.grad)
    scope.indent()
    return True


def _total(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.real and len(found.shape) > 0)
    if value is None:
        return False
    scope.bind(f"{value.name}.sum()", (), value.kind, grad=value.grad)
    return True


def _parameter_view(scope: Scope) -> bool:
    """A view of a parameter that the region reaches by closure: returned, it is memory of somebody else's."""
    scope.bind(f"{scope.leaves.parameter(4, 6)}.transpose(-1, -2)", (6, 4), fresh=False)
    return True


def _constant(scope: Scope) -> bool:
    """A custom function that knows a frozen leaf by its identity."""
    value = scope.pick(lambda found: found.kind == "float")
    if value is None:
        return False
    frozen = scope.leaves.leaf("c", (2,), grad=False)
    scope.bind(f"Knows.apply({value.name}, {frozen.name})", value.shape, fresh=False, grad=value.grad)
    return True


def _reads_requires_grad(scope: Scope) -> bool:
    """A factor that says whether an argument needs a gradient, as functions with a fast path ask."""
    asked = scope.pick(lambda found: found.kind in FLOATING and found.name.startswith("a"))
    value = scope.pick(lambda found: found.kind in FLOATING)
    if asked is None or value is None:
        return False
    value.fresh = False
    scope.bind(f"({value.name} * (2 if {asked.name}.requires_grad else 1)).sin()", value.shape, value.kind)
    return True


def _argument(value: Value) -> bool:
    return value.kind == "float" and value.name.startswith("a")


def _asks(scope: Scope) -> bool:
    """A custom function whose backward asks whether an argument of the region needs a gradient."""
    asked = scope.pick(lambda found: _argument(found) and not found.grad) or scope.pick(_argument)
    if asked is None:
        return False
    value = scope.pick(lambda found: found.kind == "float" and found.grad and found is not asked)
    if value is None:
        if not SAVING["linear"](scope):
            return False
        value = scope.values[-1]
    scope.bind(f"Asks.apply({value.name}, {asked.name})", value.shape, grad=value.grad)
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


SAVING: Mapping[str, Operation] = {
    "sin": partial(elementwise, "{}.sin()"),
    "tanh": partial(elementwise, "{}.tanh()", saves=False, fresh=False),
    "multiply": partial(binary, "{} * {}"),
    "linear": partial(_matrix, "F.linear({}, {}, {})"),
    "save-views": partial(_custom, "SaveViews"),
    "gelu": partial(elementwise, "F.gelu({})", real=True),
    "layer-norm": _norm,
}
"""Operations that save their input or output: what a consumer is made of, besides views."""

OPERATIONS: Mapping[str, Operation] = {
    **SAVING,
    "scale": partial(elementwise, "{} * 1.5", saves=False),
    "add": partial(binary, "{} + {}"),
    "exp": partial(elementwise, "({} * 0.1).exp()", saves=False, fresh=False),
    "relu": partial(elementwise, "{}.relu()", saves=False, fresh=False, real=True),
    "softmax": partial(elementwise, "{}.softmax(-1)", saves=False, fresh=False, real=True),
    "dropout": partial(elementwise, "F.dropout({}, 0.5)", saves=False, real=True),
    "noise": partial(elementwise, "{0} * torch.rand_like({0})", real=True),
    "rrelu": partial(elementwise, "F.rrelu({}, training=True)", fresh=False, real=True),
    "clone": partial(elementwise, "{}.clone()", saves=False),
    "detach": partial(elementwise, "{}.detach()", fresh=False),
    "batch-norm": _batch_norm,
    "conv": _conv,
    "attention": _attention,
    "embedding": _embedding,
    "where": _where,
    "argmax": _argmax,
    "mean": _mean,
    "double": partial(_convert, "{}.double()", "float", "double"),
    "float": partial(_convert, "{}.float()", "double", "float"),
    "complex": partial(_convert, "torch.complex({0}.float(), {0}.float() * 2)", "float", "complex"),
    "as-real": _as_real,
    "real-part": partial(_convert, "{}.real", "complex", "float"),
    "imaginary-part": partial(_convert, "{}.imag", "complex", "float"),
    "half": partial(_convert, "{}.bfloat16().float()", "float", "float"),
    "conjugate": partial(_convert, "{}.conj()", "complex", "complex"),
    "sigmoid": partial(elementwise, "{}.sigmoid()", saves=False, fresh=False),
    "silu": partial(elementwise, "F.silu({})", real=True),
    "log-softmax": partial(elementwise, "{}.log_softmax(-1)", saves=False, fresh=False, real=True),
    "cumsum": partial(elementwise, "{}.cumsum(-1)", saves=False, real=True),
    "sorted": partial(elementwise, "{}.sort(-1).values", saves=False, fresh=False, real=True),
    "alpha-dropout": partial(elementwise, "F.alpha_dropout({}, 0.5, training=True)", real=True),
    "dropout-again": partial(elementwise, "F.dropout({0} * 2, 0.25) + F.dropout({0}, 0.25)", real=True),
    "no-grad": _no_grad,
    "autocast": _autocast_matrix,
    "hook": _hook,
    "add-in-place": partial(_in_place, "{}.add_(1)"),
    "scale-in-place": partial(_in_place, "{}.mul_(2)"),
    "relu-in-place": partial(_in_place, "{}.relu_()", saves=True),
    "view-in-place": partial(_in_place, "{}[..., 0].mul_(3)"),
    "save-output": partial(_custom, "SaveOutput"),
    "read-twice": partial(_custom, "ReadTwice"),
    "dropout-in-place": partial(_in_place, "F.dropout({}, 0.5, inplace=True)"),
    "swish": partial(_custom, "Swish"),
    "enable-grad": _enable_grad,
    "total": _total,
    "parameter-view": _parameter_view,
    "knows-a-constant": _constant,
    "reads-grad-mode": partial(elementwise, "({} * (2 if torch.is_grad_enabled() else 1)).sin()"),
    "reads-requires-grad": _reads_requires_grad,
    "asks-who-needs-a-gradient": _asks,
    "other-checkpoint": partial(elementwise, "other_checkpoint({})"),
    **JOINING,
    **VIEWS,
}
"""Every operation by name."""
