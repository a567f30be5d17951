"""Operations that join values: products, joins, indexing with integers, and hooks that count."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_conformance.fuzz.plain_operations import Operation
from ckpt_conformance.fuzz.values import LARGEST, Scope


def _product(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.kind == "float" and len(found.shape) in {2, 3})
    if value is None:
        return False
    value.fresh = False
    rows = value.shape[-2]
    scope.bind(f"{value.name} @ {value.name}.transpose(-1, -2)", (*value.shape[:-1], rows))
    return True


def _concatenation(scope: Scope) -> bool:
    first = scope.pick(lambda found: found.real and len(found.shape) >= 1 and found.size <= LARGEST // 2)
    if first is None:
        return False
    second = scope.pick(lambda found: (found.shape, found.kind) == (first.shape, first.kind))
    assert second is not None
    joined = (2 * first.shape[0], *first.shape[1:])
    scope.bind(f"torch.cat([{first.name}, {second.name}])", joined, first.kind)
    return True


def _index(scope: Scope) -> bool:
    where = scope.pick(lambda found: found.kind == "int" and found.size <= 32)
    value = scope.pick(lambda found: found.real and 1 <= len(found.shape) <= 2 and found.size <= 64)
    if where is None or value is None:
        return False
    expression = f"{value.name}[{where.name}.reshape(-1) % {value.shape[0]}]"
    scope.bind(expression, (where.size, *value.shape[1:]), value.kind)
    return True


def _count(scope: Scope) -> bool:
    where = scope.pick(lambda found: found.kind == "int")
    if where is None:
        return False
    scope.bind(f"{where.name} * 2 + 1", where.shape, "int", grad=False)
    return True


def _parts(scope: Scope) -> bool:
    """Both halves of a split: two views of one value, which alias each other's storage."""
    value = scope.pick(lambda found: found.real and len(found.shape) > 0 and found.shape[0] % 2 == 0)
    if value is None:
        return False
    value.fresh = False
    shape = (value.shape[0] // 2, *value.shape[1:])
    both = scope.bind("()", shape, value.kind, fresh=False), scope.bind("()", shape, value.kind, fresh=False)
    del scope.lines[-2:]
    scope.lines.append(f"{both[0].name}, {both[1].name} = {value.name}.chunk(2)")
    return True


def _largest(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.real and len(found.shape) > 1)
    if value is None:
        return False
    scope.bind(f"{value.name}.max(-1).values", value.shape[:-1], value.kind, fresh=False)
    return True


def _counted_hook(scope: Scope) -> bool:
    value = scope.pick(lambda found: found.real and found.grad and found.name.startswith("v"))
    if value is None:
        return False
    name = value.name
    scope.lines.append(f"if {name}.requires_grad: {name}.register_hook(hear('hook on {name}'))")
    return True


JOINING: Mapping[str, Operation] = {
    "product": _product,
    "concatenation": _concatenation,
    "index": _index,
    "count": _count,
    "parts": _parts,
    "largest": _largest,
    "counted-hook": _counted_hook,
}
"""The operations of this module by name."""
