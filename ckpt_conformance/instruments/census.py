"""The census: live tensors, the bytes they stand on, autograd nodes and gradients, at one moment.

The order is what keeps it honest: the tensors that the process has as Python objects are counted first, and
only then are the graphs walked and `.grad` read, as both make objects that were not there. Nothing is
collected, and nothing of what was looked at is alive, for the census' sake, once it is taken.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.instruments.trace.native import Sort, raw_saved, saved_data, sort_of


@dataclass(frozen=True, slots=True)
class Census:
    """What was alive at one moment.

    Attributes:
        tensors: Tensors that have a Python object, gradients not among them. A tensor that a graph alone had
            gets one when it is looked at.
        nodes: Nodes of the graphs that those tensors are the ends of, and of those whose nodes Python holds.
        bytes: Bytes of all memory found: of the tensors, their gradients and what their graphs saved. Memory
            that several storages share counts once.
        grad_bytes: Bytes of the gradients of leaves.
        hidden_bytes: Bytes that only graphs hold: saved tensors that no Python object stood for.
        allocated: Bytes that the device's allocator has given out; None where it has no counter (CPU).
        types: How many objects of each type the collector tracks, by qualified name; empty unless asked for.
    """

    tensors: int
    nodes: int
    bytes: int
    grad_bytes: int
    hidden_bytes: int
    allocated: int | None = None
    types: dict[str, int] = field(default_factory=dict, compare=False)


def take_census(
    device: torch.device | str | None = None,
    *,
    with_types: bool = False,
    also: Iterable[Tensor] = (),
    hidden: bool = True,
) -> Census:
    """Count what is alive now.

    Args:
        device: Only tensors of this device, such as `cuda` or `cuda:1`; None counts those of all.
        with_types: Count the process's objects by type, too.
        also: Tensors to count though the collector does not list them (frozen ones).
        hidden: Look at what the graphs saved, too. Costs a few microseconds for each node.

    Returns:
        The counts; they refer to nothing that was counted.
    """
    objects = gc.get_objects()
    types = Counter(map(type, objects)) if with_types else {}
    visible, held = _among(objects)
    del objects
    visible += also
    with torch._C.DisableTorchFunctionSubclass():
        where = None if device is None else torch.device(device)
        return _count(visible, held, where, hidden, _named(types))


def tensors_among(objects: list[Any]) -> list[Tensor]:
    """The tensors in a list, found by their type alone: no attribute of any object is looked at."""
    return list(compress(objects, map(_tensor_types().__contains__, map(type, objects))))


def _among(objects: list[Any]) -> tuple[list[Tensor], list[Any]]:
    """The tensors among some objects, and the autograd nodes, which a program can keep without a tensor."""
    present = set(map(type, objects))
    tensor_types = _tensor_types() & present
    wanted = tensor_types | {kind for kind in present if sort_of(kind) is Sort.NODE}
    found = list(compress(objects, map(wanted.__contains__, map(type, objects))))
    tensors = [value for value in found if type(value) in tensor_types]
    return tensors, [value for value in found if type(value) not in tensor_types]


def _tensor_types() -> set[type]:
    found: set[type] = {Tensor}
    waiting: list[type] = [Tensor]
    while waiting:
        fresh: list[type] = [kind for kind in _subclasses(waiting.pop()) if kind not in found]
        found.update(fresh)
        waiting.extend(fresh)
    return found


def _subclasses(kind: type) -> list[type]:
    # unlike `kind.__subclasses__()`, it works for classes of classes as well
    return type.__subclasses__(kind)


def _named(types: dict[type, int]) -> dict[str, int]:
    named: Counter[str] = Counter()
    for kind, number in types.items():
        named[f"{kind.__module__}.{kind.__qualname__}"] += number
    return dict(named)


def _count(
    visible: list[Tensor], held: list[Any], device: torch.device | None, hidden: bool, types: dict[str, int]
) -> Census:
    seen = _Memory(device)
    seen.add(visible)
    by_tensors = seen.total()
    nodes = reachable_nodes(visible, held)
    gradients = _Memory(device)
    grads = list(_gradients(visible))
    gradients.add(grads)
    seen.add(grads)
    with_gradients = seen.total()
    if hidden:
        seen.add(_saved(nodes))
    known = set(map(id, grads))
    return Census(
        tensors=sum(1 for tensor in visible if id(tensor) not in known and seen.is_on_device(tensor)),
        nodes=len(nodes),
        bytes=max(seen.total(), by_tensors),
        grad_bytes=gradients.total(),
        hidden_bytes=seen.total() - with_gradients,
        allocated=allocated_bytes(device),
        types=types,
    )


class _Memory:
    """Bytes by address, so that storages which share memory count once."""

    def __init__(self, device: torch.device | None) -> None:
        self._device = device
        self._sizes: dict[int, int] = {}

    def add(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            if not self.is_on_device(tensor):
                continue
            try:
                storage = tensor.untyped_storage()
                address, size = storage.data_ptr(), storage.nbytes()
            except (RuntimeError, NotImplementedError):
                continue  # it has no storage, or a discarded one that refuses access: no bytes
            if address and size > self._sizes.get(address, 0):
                self._sizes[address] = size

    def total(self) -> int:
        return sum(self._sizes.values())

    def is_on_device(self, tensor: Tensor) -> bool:
        wanted = self._device
        if wanted is None:
            return True
        return tensor.device.type == wanted.type and wanted.index in (None, tensor.device.index)


def reachable_nodes(tensors: Iterable[Tensor], held: Iterable[Any] = ()) -> set[Any]:
    """The autograd nodes that the graphs of some tensors, and of nodes, consist of; nothing is unpacked."""
    nodes: set[Any] = {tensor.grad_fn for tensor in tensors if tensor.requires_grad and not tensor.is_leaf}
    nodes.discard(None)
    nodes.update(held)
    waiting = list(nodes)
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None and following not in nodes:
                nodes.add(following)
                waiting.append(following)
    return nodes


def _gradients(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    for tensor in tensors:
        if tensor.is_leaf and tensor.grad is not None:
            yield tensor.grad


def _saved(nodes: Iterable[Any]) -> Iterator[Tensor]:
    for node in nodes:
        for _, saved in raw_saved(node):
            data = saved_data(saved)
            if isinstance(data, Tensor):
                yield data


def allocated_bytes(device: torch.device | None) -> int | None:
    """What the caching allocator has given out, in requested bytes; None where there is no such counter.

    Without a device: the current CUDA device's, where CUDA is in use already.
    """
    if device is not None and device.type != "cuda":
        return None
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.memory_stats(device)["requested_bytes.all.current"])
