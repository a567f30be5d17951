"""From surviving tensors to leaks: who holds them, grouped by holder, and of which kind each group is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from ckpt_conformance.instruments.census import unique_bytes
from ckpt_conformance.instruments.trace.explain import Held, trace_all
from ckpt_conformance.instruments.trace.fingerprint import fingerprint, holder, normalized
from ckpt_conformance.instruments.trace.walk import Hop, written
from ckpt_conformance.leaks.model import Kind, Leak, Step

_TRACED = 24
"""At most so many survivors are traced; others that look the same are counted with them."""

_Key = tuple[object, ...]


@dataclass
class _Lookalikes:
    """Survivors of one shape, type and place in the graph; one of them is traced for all.

    The tensors themselves are let go of before garbage is collected, to see which of them go with it.
    """

    example: weakref.ref[Tensor]
    facts: str
    is_gradient: bool
    count: int
    bytes: int
    born: tuple[int, ...]
    held: Held | None = None


@dataclass
class _Group:
    members: list[_Lookalikes] = field(default_factory=list)


def find_leaks(survivors: list[tuple[Tensor, int]]) -> list[Leak]:
    """The leaks that some survivors, each with the step it was born in, make up; the largest first.

    The list is emptied, and garbage collected: whoever calls this has counted before.
    """
    looks = _lookalikes(survivors)
    survivors.clear()
    _trace(looks)
    gc.collect()
    groups: dict[tuple[Kind, str], _Group] = {}
    for look in looks:
        if look.held is not None:
            kind = _kind(look.held, alive=look.example() is not None)
            groups.setdefault((kind, normalized(_holder_of(look.held))), _Group()).members.append(look)
    leaks = [_leak(kind, group.members) for (kind, _), group in groups.items()]
    return sorted(leaks, key=lambda leak: (-leak.bytes, leak.fingerprint))


def _lookalikes(survivors: Sequence[tuple[Tensor, int]]) -> list[_Lookalikes]:
    gradients = {id(one.grad) for one, _ in survivors if one.is_leaf and one.grad is not None}
    alike: dict[_Key, list[tuple[Tensor, int]]] = {}
    for tensor, step in survivors:
        alike.setdefault(_key(tensor, is_gradient=id(tensor) in gradients), []).append((tensor, step))
    found = [_summed(key, members) for key, members in alike.items()]
    return sorted(found, key=lambda look: (-look.bytes, look.facts))[:_TRACED]


def _key(tensor: Tensor, *, is_gradient: bool) -> _Key:
    made_by = type(tensor.grad_fn).__name__ if tensor.grad_fn is not None else ""
    return (
        is_gradient,
        tuple(tensor.shape),
        str(tensor.dtype),
        str(tensor.device),
        tensor.requires_grad,
        made_by,
    )


def _summed(key: _Key, members: list[tuple[Tensor, int]]) -> _Lookalikes:
    example = min(members, key=lambda member: member[1])[0]
    return _Lookalikes(
        example=weakref.ref(example),
        facts=_facts(example),
        is_gradient=bool(key[0]),
        count=len(members),
        bytes=unique_bytes(tensor for tensor, _ in members),
        born=tuple(sorted({step for _, step in members})),
    )


def _facts(tensor: Tensor) -> str:
    made_by = f", made by {type(tensor.grad_fn).__name__}" if tensor.grad_fn is not None else ""
    return f"{type(tensor).__name__}{list(tensor.shape)} {tensor.dtype} on {tensor.device}{made_by}"


def _trace(looks: list[_Lookalikes]) -> None:
    alive = [(look, tensor) for look in looks if (tensor := look.example()) is not None]
    examples = [tensor for _, tensor in alive]
    traced = [look for look, _ in alive]
    alive.clear()
    for look, held in zip(traced, trace_all(examples), strict=True):
        look.held = held
    examples.clear()


def _kind(held: Held, *, alive: bool) -> Kind:
    if held.path is not None:
        return Kind.HELD
    if not alive:
        return Kind.PYTHON_CYCLE
    return Kind.NATIVE_CYCLE if held.cycle is not None else Kind.NATIVE_OWNER


def _holder_of(held: Held) -> str:
    if held.path is not None:
        return written(held.path.root, holder(held.path.hops))
    return held.cycle.text if held.cycle is not None else "a C++ owner"


def _leak(kind: Kind, members: list[_Lookalikes]) -> Leak:
    nearest = min(members, key=lambda look: (len(_hops(look)), look.facts))
    held = nearest.held
    assert held is not None
    if kind is Kind.HELD and _only_leaves_and_gradients(members):
        kind = Kind.GRAD_KEPT
    root_name = held.path.root.name if held.path is not None else ""
    text = _holder_of(held)
    return Leak(
        kind=kind,
        fingerprint=fingerprint(kind, f"{held.root} {root_name} {text}"),
        root=held.root,
        root_name=root_name,
        holder=text,
        trace=held.path.text if held.path else held.cycle.text if held.cycle else held.text,
        steps=_steps(_hops(nearest)),
        objects=sum(look.count for look in members),
        bytes=sum(look.bytes for look in members),
        born=tuple(sorted({step for look in members for step in look.born})),
        example=nearest.facts,
    )


def _only_leaves_and_gradients(members: list[_Lookalikes]) -> bool:
    gradients = [look for look in members if look.is_gradient]
    return bool(gradients) and all(look.is_gradient or ", made by" not in look.facts for look in members)


def _hops(look: _Lookalikes) -> tuple[Hop, ...]:
    assert look.held is not None
    where = look.held.path or look.held.cycle
    return where.hops if where is not None else ()


def _steps(hops: Iterable[Hop]) -> tuple[Step, ...]:
    hops = tuple(hops)
    mendable = len(holder(hops))
    return tuple(
        Step(label=one.label, type=one.type, native=one.native, suspect=position == mendable - 1)
        for position, one in enumerate(hops)
    )
