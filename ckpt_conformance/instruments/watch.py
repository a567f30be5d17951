"""Watch storages, tensors and graph nodes die, without keeping any of them alive.

A weak reference to a *tensor* says too little: an operation's saved output has another Python object on the
same storage, so the reference dies while the memory lives. Storages are watched instead. Collecting garbage
would hide the cycles one looks for, so the watches are read with the collector off: `without_collector`.
"""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """The garbage collector off inside, and as it was afterwards.

    Nothing is collected on the way in: garbage of before is not the watched code's.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class StorageWatch:
    """Names of tensors, and whether the memory of each is still there."""

    def __init__(self) -> None:
        self._watched: list[tuple[str, StorageWeakRef]] = []

    def add(self, name: str, tensor: Tensor) -> Tensor:
        """Watch a tensor's storage; the tensor is handed back, so that a region can watch as it computes."""
        self._watched.append((name, StorageWeakRef(tensor.untyped_storage())))
        return tensor

    def alive(self) -> list[str]:
        """The names whose storage lives and holds memory, in the order in which they were added."""
        return [name for name, reference in self._watched if _bytes_of(reference) > 0]

    def bytes_alive(self) -> int:
        """Bytes of the watched storages that live, each piece of memory counted once."""
        return _unique_bytes(reference for _, reference in self._watched)

    def tensors(self) -> list[Tensor]:
        """The Python tensors that sit on a watched storage which lives; for tracing, after counting."""
        return _tensors_on(reference for _, reference in self._watched)


class NodeWatch:
    """Names of autograd nodes, and whether each is still there: a handle in its metadata dies with a node."""

    def __init__(self) -> None:
        self._watched: list[tuple[str, weakref.ref[_Handle]]] = []

    def add(self, name: str, tensor: Tensor) -> Tensor:
        """Watch the node that made a tensor; one that has none is no node's result and is passed over."""
        if tensor.grad_fn is not None:
            handle = _Handle()
            metadata: dict[Any, Any] = tensor.grad_fn.metadata  # type: ignore[assignment]
            metadata[handle] = None
            self._watched.append((name, weakref.ref(handle)))
        return tensor

    def alive(self) -> list[str]:
        """The names whose node lives, in the order in which they were added."""
        return [name for name, reference in self._watched if reference() is not None]

    def objects(self) -> list[Any]:
        """The handles of the nodes that live, each of which its node's metadata holds; for tracing."""
        return [handle for _, reference in self._watched if (handle := reference()) is not None]


class _Handle:
    """What a node's metadata holds; nothing else does."""


class ObjectWatch:
    """Names of Python objects, and whether each is still there."""

    def __init__(self) -> None:
        self._watched: list[tuple[str, weakref.ref[Any]]] = []

    def add(self, name: str, value: Any) -> None:
        """Watch an object that can be weakly referenced."""
        self._watched.append((name, weakref.ref(value)))

    def alive(self) -> list[str]:
        """The names whose object lives."""
        return [name for name, reference in self._watched if reference() is not None]

    def objects(self) -> list[Any]:
        """Those that live; for tracing."""
        return [value for _, reference in self._watched if (value := reference()) is not None]


class LiveBytes(TorchDispatchMode):
    """Every storage that an operation makes while this mode is entered, and how much of it lives.

    It sees tensors that no Python code ever held, such as those that an operation saves for itself, in the
    forward and in the backward alike. Memory made before the mode was entered is not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, StorageWeakRef] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: shielding the mode from the compiler would import the compiler, which takes seconds."""
        return False

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run the operation and watch its results."""
        result = func(*args, **(kwargs or {}))
        given = {_cdata(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and _cdata(leaf) not in given:
                # a dead storage's address may be used again, so the newest reference replaces the old one
                self._made[_cdata(leaf)] = StorageWeakRef(leaf.untyped_storage())
        return result

    def now(self) -> int:
        """Bytes that live, each piece of memory counted once however many storages share it."""
        return _unique_bytes(self._made.values())

    def tensors(self) -> list[Tensor]:
        """The Python tensors that sit on what lives; for tracing, after counting."""
        return _tensors_on(self._made.values())


def visible_tensors() -> list[Tensor]:
    """Every tensor that has a Python object which the collector tracks; nothing is touched but its type."""
    return [value for value in gc.get_objects() if issubclass(type(value), Tensor)]


def _tensors_on(references: Iterable[StorageWeakRef]) -> list[Tensor]:
    data = {_storage(reference).data_ptr() for reference in references if _bytes_of(reference)}
    return [tensor for tensor in visible_tensors() if _data_ptr(tensor) in data]


def leaves_of_graph(roots: Iterable[Tensor]) -> list[Tensor]:
    """The leaf tensors that the graphs of `roots` end in, each once, without unpacking what they saved."""
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen: set[Any] = set(waiting)
    leaves: dict[int, Tensor] = {}
    while waiting:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if isinstance(variable, Tensor):
            leaves.setdefault(id(variable), variable)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return list(leaves.values())


def _storage(reference: StorageWeakRef) -> torch.UntypedStorage:
    return torch.UntypedStorage._new_with_weak_ptr(reference.cdata)


def _bytes_of(reference: StorageWeakRef) -> int:
    storage = None if reference.expired() else _storage(reference)
    return 0 if storage is None else int(storage.nbytes())


def _unique_bytes(references: Iterable[StorageWeakRef]) -> int:
    by_address: dict[int, int] = {}
    for reference in references:
        size = _bytes_of(reference)
        if size:
            address = _storage(reference).data_ptr()
            by_address[address] = max(size, by_address.get(address, 0))
    return sum(by_address.values())


def _cdata(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _data_ptr(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return -1
