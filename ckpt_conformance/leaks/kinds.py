"""From surviving tensors to leaks: who holds them, grouped by holder, and of which kind each group is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from ckpt_conformance.instruments.trace.explain import Held, trace_all
from ckpt_conformance.instruments.trace.fingerprint import fingerprint, holder, normalized
from ckpt_conformance.instruments.trace.walk import Hop, written
from ckpt_conformance.instruments.watch import StorageWatch
from ckpt_conformance.leaks.births import BirthLog
from ckpt_conformance.leaks.facts import Birth, Remedy, Retained, TensorFacts
from ckpt_conformance.leaks.follow import hops_of, objects_of
from ckpt_conformance.leaks.look import Look, look_of
from ckpt_conformance.leaks.model import Kind, Leak, Step
from ckpt_conformance.leaks.remedies import dropping, general_remedies
from ckpt_conformance.leaks.retained import Retention, own_memory
from ckpt_conformance.leaks.verdicts import tensor_facts, verdicts_of

_TRACED = 24
"""At most so many survivors are traced, each for all that look the same; the report says what was left."""

_Key = tuple[bool, Look]


@dataclass
class _Lookalikes:
    """Survivors of one shape, type and place in the graph; one of them is traced for all.

    `bytes` has the size of each piece of their memory, by its address.

    The tensors themselves are let go of before garbage is collected, to see which of them go with it.
    """

    example: weakref.ref[Tensor]
    facts: str
    is_gradient: bool
    count: int
    bytes: dict[int, int]
    born: tuple[int, ...]
    tensor: TensorFacts
    birth: Birth | None
    held: Held | None = None
    verdicts: tuple[str, ...] = ()
    retained: tuple[Retained, ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass
class _Group:
    members: list[_Lookalikes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Found:
    """What came of looking into some survivors.

    Attributes:
        leaks: The leaks, the largest first.
        traced: How much of them was looked into, as a sentence.
    """

    leaks: tuple[Leak, ...] = ()
    traced: str = ""


def find_leaks(
    survivors: list[tuple[Tensor, int]], births: BirthLog | None = None, *, late: bool = False
) -> Found:
    """The leaks that some survivors, each with the step it was born in, make up.

    The list is emptied, and garbage collected: whoever calls this has counted before.

    Args:
        survivors: The tensors, and the step of each.
        births: Where memory was made.
        late: Whether the next step would free them.
    """
    if not survivors:
        return Found()
    every = _lookalikes(survivors, births or BirthLog())
    looks = every[:_TRACED]
    traced = _told(looks, every)
    born = {id(tensor): step for tensor, step in survivors}
    watch = _watch(survivors)
    _retain(looks, [tensor for tensor, _ in survivors], leave_out=[id(survivors), *map(id, survivors)])
    survivors.clear()
    _trace(looks)
    _judge_nodes(looks, born)
    _remedy(looks, watch)
    gc.collect()
    groups: dict[tuple[Kind, str], _Group] = {}
    for look in looks:
        if look.held is not None:
            kind = Kind.LATE if late else _kind(look.held, alive=look.example() is not None)
            groups.setdefault((kind, normalized(_holder_of(look.held))), _Group()).members.append(look)
    leaks = [_leak(kind, group.members) for (kind, _), group in groups.items()]
    return Found(tuple(sorted(leaks, key=lambda leak: (-leak.bytes, leak.fingerprint))), traced)


def _told(looks: list[_Lookalikes], every: list[_Lookalikes]) -> str:
    """How much was looked into: one tensor stands for those that look like it, and there is a limit."""
    tensors = sum(look.count for look in every)
    if tensors == len(looks):
        return ""
    told = f"{len(looks)} of {tensors} surviving tensors were traced, one for each look"
    rest = every[len(looks) :]
    if not rest:
        return f"{told}: the others look like one of them, and are counted with it"
    size = sum({address: size for look in rest for address, size in look.bytes.items()}.values())
    left = sum(look.count for look in rest)
    return (
        f"{told} for the largest {len(looks)} of {len(every)} looks; {left} tensors on {size} bytes were left"
    )


def _lookalikes(survivors: Sequence[tuple[Tensor, int]], births: BirthLog) -> list[_Lookalikes]:
    gradients = {id(one.grad) for one, _ in survivors if one.is_leaf and one.grad is not None}
    alike: dict[_Key, list[tuple[Tensor, int]]] = {}
    for tensor, step in survivors:
        alike.setdefault((id(tensor) in gradients, look_of(tensor)), []).append((tensor, step))
    memory = own_memory(tensor for tensor, _ in survivors)
    on_it = {number: (address, size, len(ids)) for address, (ids, size) in memory.items() for number in ids}
    found = [_summed(key, members, births, on_it) for key, members in alike.items()]
    return sorted(found, key=lambda look: (-sum(look.bytes.values()), look.facts))


def _summed(
    key: _Key, members: list[tuple[Tensor, int]], births: BirthLog, on_it: Mapping[int, tuple[int, int, int]]
) -> _Lookalikes:
    example = min(members, key=lambda member: member[1])[0]
    return _Lookalikes(
        example=weakref.ref(example),
        facts=_facts(example),
        is_gradient=key[0],
        count=len(members),
        bytes=dict(on_it[id(tensor)][:2] for tensor, _ in members if id(tensor) in on_it),
        born=tuple(sorted({step for _, step in members})),
        tensor=tensor_facts(example, is_gradient=key[0], sharing=on_it.get(id(example), (0, 0, 1))[2] - 1),
        # recording begins once something grows, so the oldest of them may have no record
        birth=next((birth for tensor, _ in members if (birth := births.of(tensor))), None),
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


def _watch(survivors: list[tuple[Tensor, int]]) -> StorageWatch:
    watch = StorageWatch()
    for tensor, _ in survivors:
        watch.add("", tensor)
    return watch


def _retain(looks: list[_Lookalikes], leaked: list[Tensor], leave_out: list[int]) -> None:
    """Note who alone keeps each example, and how much of all that leaked."""
    tree = Retention(leaked, leave_out=leave_out)
    for look in looks:
        example = look.example()
        look.retained = tree.above(example) if example is not None else ()
    tree.close()
    leaked.clear()


def _judge_nodes(looks: list[_Lookalikes], born: Mapping[int, int]) -> None:
    for look in looks:
        if look.held is not None:
            objects = objects_of(look.held)
            labels = [one.label for one in hops_of(look.held)]
            look.verdicts = tuple(verdicts_of(objects, labels, born)) if objects else ()
            objects.clear()


def _remedy(looks: list[_Lookalikes], watch: StorageWatch) -> None:
    """Try remedies: those for everything once, and dropping the reference once for each holder."""
    general = general_remedies(watch)
    tried: dict[str, tuple[Remedy, ...]] = {}
    for look in looks:
        if look.held is not None:
            holder_of = normalized(_holder_of(look.held))
            if holder_of not in tried:
                tried[holder_of] = dropping(watch, look.held)
            look.remedies = (*general, *tried[holder_of])


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
        steps=_steps(hops_of(held), nearest.verdicts),
        objects=sum(look.count for look in members),
        bytes=sum({address: size for look in members for address, size in look.bytes.items()}.values()),
        born=tuple(sorted({step for look in members for step in look.born})),
        example=nearest.facts,
        facts=nearest.tensor,
        birth=nearest.birth or next((look.birth for look in members if look.birth), None),
        retained=nearest.retained,
        remedies=nearest.remedies,
    )


def _only_leaves_and_gradients(members: list[_Lookalikes]) -> bool:
    gradients = [look for look in members if look.is_gradient]
    return bool(gradients) and all(look.is_gradient or ", made by" not in look.facts for look in members)


def _hops(look: _Lookalikes) -> tuple[Hop, ...]:
    assert look.held is not None
    return hops_of(look.held)


def _steps(hops: Sequence[Hop], verdicts: Sequence[str]) -> tuple[Step, ...]:
    mendable = len(holder(hops))
    return tuple(
        Step(
            label=one.label,
            type=one.type,
            native=one.native,
            suspect=position == mendable - 1,
            verdict=verdicts[position] if verdicts else "",
        )
        for position, one in enumerate(hops)
    )
