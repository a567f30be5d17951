"""Remedies, measured: each is tried in a forked child, which says how much of the leaked memory is gone."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import select
import signal
import types
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.instruments.trace.explain import Held
from ckpt_conformance.instruments.trace.fingerprint import holder
from ckpt_conformance.instruments.trace.labels import fold
from ckpt_conformance.instruments.trace.roots import RootKind
from ckpt_conformance.instruments.watch import StorageWatch
from ckpt_conformance.leaks.facts import Remedy
from ckpt_conformance.leaks.follow import all_objects_of, hops_of

_SECONDS = 20
_ATTRIBUTE = re.compile(r"\.([A-Za-z_]\w*)$")

Told = list[dict[str, Any]]


def general_remedies(watch: StorageWatch) -> tuple[Remedy, ...]:
    """What collecting garbage, and setting every module's gradients to None, free of some watched memory."""
    collected = _in_a_child("gc.collect()", lambda: _measured(watch, _collect))
    zeroed = _in_a_child("zero_grad(set_to_none=True)", lambda: _measured(watch, _zero_all))
    return (*collected, *zeroed)


def dropping(watch: StorageWatch, held: Held) -> tuple[Remedy, ...]:
    """What dropping the suspect reference frees, or the nearest one before it that can be dropped."""
    return _in_a_child(
        "dropping the suspect reference", lambda: _measured(watch, lambda: _drop(held), also_collect=True)
    )


def _collect() -> str:
    gc.collect()
    return "gc.collect()"


def _zero_all() -> str:
    for value in gc.get_objects():
        if issubclass(type(value), torch.nn.Module):
            value.zero_grad(set_to_none=True)
    return "zero_grad(set_to_none=True)"


def _measured(watch: StorageWatch, remedy: Callable[[], str], *, also_collect: bool = False) -> Told:
    before = watch.bytes_alive()
    what = remedy()
    after = watch.bytes_alive()
    told: Told = [{"what": what, "freed": before - after}]
    if also_collect:
        gc.collect()
        if watch.bytes_alive() < after:
            told.append({"what": f"{what}, then gc.collect()", "freed": before - watch.bytes_alive()})
    return told


def _in_a_child(what: str, work: Callable[[], Told]) -> tuple[Remedy, ...]:
    if not hasattr(os, "fork"):
        return (Remedy(what=what, freed=None, problem="this system cannot fork a process"),)
    if torch.cuda.is_initialized():
        return (Remedy(what=what, freed=None, problem="CUDA is in use, and no forked child can free it"),)
    told = _asked(work)
    if isinstance(told, str):
        return (Remedy(what=what, freed=None, problem=told),)
    return tuple(Remedy(**one) for one in told)


def _asked(work: Callable[[], Told]) -> Told | str:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # other threads are not there in the child, which waits for none of them
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _answer(writer, work)
    os.close(writer)
    try:
        raw = _read(reader)
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not raw:
        return "the child process gave no answer"
    answer: Told | str = json.loads(raw)
    return answer


def _answer(writer: int, work: Callable[[], Told]) -> None:
    """In the child: work, tell, and end without any of the parent's clean-up."""
    try:
        answer: Told | str = work()
    except BaseException as error:  # noqa: BLE001 - nothing may run on in the child
        answer = f"{type(error).__name__}: {error}"
    try:
        os.write(writer, json.dumps(answer).encode())
    finally:
        os._exit(0)


def _read(reader: int) -> bytes:
    parts: list[bytes] = []
    while select.select([reader], [], [], _SECONDS)[0]:
        part = os.read(reader, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return b""


class CannotDropError(Exception):
    """No reference of the path can be dropped from outside."""


def _drop(held: Held) -> str:
    """Drop the suspect reference, in every like cycle; what was done, as code."""
    hops = hops_of(held)
    mendable = len(holder(hops)) or len(hops)
    done = ""
    for objects in all_objects_of(held):
        order = range(mendable - 1, -1, -1) if held.path else _from_the_user(held)
        done = next((text for at in order if (text := _cut_at(objects, held, at))), done)
        objects.clear()
        if held.path is not None:
            break
    if not done:
        raise CannotDropError("no reference of it can be dropped from outside, such as a running frame's")
    return done


def _from_the_user(held: Held) -> Sequence[int]:
    hops = hops_of(held)
    return sorted(range(len(hops)), key=lambda at: hops[at].native)


def _cut_at(objects: Sequence[Any], held: Held, at: int) -> str:
    """Cut a path at one reference; what was done, or nothing where that one cannot be dropped."""
    hops = hops_of(held)
    parent, one = objects[at], hops[at]
    start = _start_of(held)
    whole = fold(start + "".join(before.label for before in hops[: at + 1]))
    if isinstance(parent, Tensor) and one.label == ".grad_fn":
        parent.detach_()
        return f"{fold(start + ''.join(before.label for before in hops[:at]))}.detach_()"
    if type(parent) is dict and at and hops[at - 1].label == ".__dict__":
        return f"del {whole}" if _delete(parent, objects[at + 1]) else ""
    is_frame = held.path is not None and held.path.root.kind is RootKind.FRAME and at == 0
    if isinstance(parent, (list, dict, set, deque)) and not is_frame:
        parent.clear()
        return f"{fold(start + ''.join(before.label for before in hops[:at]))}.clear()"
    if isinstance(parent, types.CellType):
        del parent.cell_contents
        return f"del {whole}"
    return f"{whole} = None" if _set_to_none(parent, one.label) else ""


def _start_of(held: Held) -> str:
    if held.path is None:
        return f"<{held.cycle.start}>" if held.cycle is not None else ""
    return held.path.root.name if held.path.root.kind is not RootKind.FRAME else ""


def _delete(namespace: dict[str, Any], value: Any) -> bool:
    names = [name for name, one in namespace.items() if one is value]
    for name in names:
        del namespace[name]
    return bool(names)


def _set_to_none(parent: Any, text: str) -> bool:
    name = _ATTRIBUTE.match(text)
    if name is None or text == ".__dict__":
        return False
    try:
        setattr(parent, name[1], None)
    except (AttributeError, TypeError, RuntimeError):
        return False
    return True
