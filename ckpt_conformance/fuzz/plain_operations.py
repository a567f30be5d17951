"""The plainest operations: elementwise ones, and views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from ckpt_conformance.fuzz.values import LARGEST, Scope, Value

Operation: TypeAlias = Callable[[Scope], bool]
"""Adds a line to the scope; False where no value fits."""

FLOATING = frozenset({"float", "double", "complex"})


def elementwise(
    template: str, scope: Scope, *, saves: bool = True, fresh: bool = True, real: bool = False
) -> bool:
    """Bind what an expression of one value gives, which has its shape.

    Args:
        template: The expression.
        scope: Where it goes.
        saves: Whether backward needs the value.
        fresh: Whether the new value may be changed in place.
        real: Whether complex values do not fit.
    """
    value = scope.pick(lambda found: found.real if real else found.kind in FLOATING, rowless=True)
    if value is None:
        return False
    if saves:
        value.fresh = False
    scope.bind(template.format(value.name), value.shape, value.kind, fresh=fresh, grad=value.grad)
    return True


def binary(template: str, scope: Scope) -> bool:
    """Bind what an expression of two values of one form gives."""
    first = scope.pick(lambda found: found.kind in FLOATING, rowless=True)
    if first is None:
        return False
    second = scope.pick(lambda found: (found.shape, found.kind) == (first.shape, first.kind), rowless=True)
    assert second is not None
    first.fresh = second.fresh = False
    scope.bind(template.format(first.name, second.name), first.shape, first.kind)
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


def _permute(value: Value) -> tuple[str, tuple[int, ...]] | None:
    fits = len(value.shape) == 3
    return (f"{value.name}.permute(2, 0, 1)", (value.shape[2], *value.shape[:2])) if fits else None


def _unbind(value: Value) -> tuple[str, tuple[int, ...]] | None:
    return (f"{value.name}.unbind(-1)[0]", value.shape[:-1]) if len(value.shape) > 1 else None


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


def _windows(value: Value) -> tuple[str, tuple[int, ...]] | None:
    """Overlapping pairs; contiguous() makes sure that they lie within the storage."""
    if not 2 <= value.size <= LARGEST // 2:
        return None
    shape = (value.size - 1, 2)
    return f"{value.name}.contiguous().as_strided({shape}, (1, 1))", shape


def _unfold(value: Value) -> tuple[str, tuple[int, ...]] | None:
    if not 1 <= len(value.shape) < 3 or value.shape[-1] < 2:
        return None
    return f"{value.name}.unfold(-1, 2, 1)", (*value.shape[:-1], value.shape[-1] - 1, 2)


def _steps(value: Value) -> tuple[str, tuple[int, ...]] | None:
    fits = len(value.shape) > 0 and value.shape[-1] > 1
    return (f"{value.name}[..., ::2]", (*value.shape[:-1], (value.shape[-1] + 1) // 2)) if fits else None


VIEWS: Mapping[str, Operation] = {
    name: partial(_view, make)
    for name, make in {
        "reshape": _reshape, "fold": _fold, "transpose": _transpose, "split": _split, "narrow": _narrow,
        "expand": _expand, "diagonal": _diagonal, "select": _select, "windows": _windows, "unfold": _unfold,
        "steps": _steps, "permute": _permute, "unbind": _unbind,
    }.items()
}  # fmt: skip
"""Operations that give views of a value."""
