"""Where memory is made: step, phase, module, region and the user's stack, for the steps that are recorded.

Recording looks at every operation, so it is for steps of a loop that is known to leak.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ckpt_conformance.instruments.phases import engine_phase
from ckpt_conformance.leaks.facts import Birth, Line

_DEEPEST = 200
_LIBRARY = ("site-packages", "dist-packages", f"{Path(sysconfig.get_paths()['stdlib'])}")
_OWN = "ckpt_conformance"
_REGION_NAMES = ("function", "fn", "run_function", "forward_func")


class BirthLog:
    """Remembers where each storage was made, while it records; it keeps none of them alive."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[StorageWeakRef, Birth]] = {}
        self._modules: list[weakref.ref[torch.nn.Module]] = []

    @contextlib.contextmanager
    def recording(self, step: int) -> Iterator[None]:
        """Record what is made inside, as of this step."""
        handles = [
            register_module_forward_pre_hook(lambda module, _: self._modules.append(weakref.ref(module))),
            register_module_forward_hook(self._left, always_call=True),
        ]
        try:
            with _Noting(step, self):
                yield
        finally:
            self._modules.clear()
            for handle in handles:
                handle.remove()

    def _left(self, *_: Any) -> None:
        if self._modules:
            self._modules.pop()

    def note(self, step: int, operation: str, tensor: Tensor) -> None:
        """Note that a tensor's storage was made just now."""
        reference = StorageWeakRef(tensor.untyped_storage())
        # from here: a device's own autograd thread has no frames but ours
        phase, region, depth, stack = _where(sys._getframe())  # noqa: SLF001 - there is no public way
        birth = Birth(
            step=step,
            phase=phase,
            operation=operation,
            module=_path_of([module for one in self._modules if (module := one()) is not None]),
            region=region,
            depth=depth,
            stack=stack,
        )
        # a dead storage's address may be used again
        self._made[reference.cdata] = reference, birth

    def of(self, tensor: Tensor) -> Birth | None:
        """Where a tensor's memory was made; None where that was not recorded."""
        cdata = _cdata(tensor)
        found = None if cdata is None else self._made.get(cdata)
        return found[1] if found is not None and not found[0].expired() else None


class _Noting(TorchDispatchMode):
    def __init__(self, step: int, log: BirthLog) -> None:
        super().__init__()
        self._step = step
        self._log = log

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # shielding the mode from the compiler would import the compiler, which takes seconds
        return False

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {_cdata(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and _cdata(leaf) not in {None, *given}:
                self._log.note(self._step, str(func), leaf)
        return result


def _cdata(tensor: Tensor) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata)  # noqa: SLF001
    except (RuntimeError, NotImplementedError):
        return None


def _where(frame: FrameType | None) -> tuple[str, str, int, tuple[Line, ...]]:
    """Phase, innermost region, nesting depth and lines of the stack that ends in a frame."""
    phase, region, depth, lines = str(engine_phase()), "", 0, list[Line]()
    while frame is not None and len(lines) < _DEEPEST:
        code = frame.f_code
        module = str(frame.f_globals.get("__name__", ""))
        if not _is_own(module):
            lines.append(_line(code.co_filename, frame.f_lineno, code.co_qualname))
        if module.startswith("torch.optim"):
            phase = "optimizer"
        if code.co_name == "checkpoint":
            depth += 1
            region = region or _region_of(frame)
        frame = frame.f_back
    return phase, region, depth, tuple(reversed(lines))


def _is_own(module: str) -> bool:
    return module.startswith((f"{_OWN}.leaks", f"{_OWN}.instruments", "torch.utils._python_dispatch"))


@functools.cache
def _line(filename: str, number: int, function: str) -> Line:
    file = filename
    with contextlib.suppress(ValueError):
        file = str(Path(file).relative_to(Path.cwd()))
    library = file.startswith("<frozen") or any(part in filename for part in _LIBRARY)
    return Line(file=file, line=number, function=function, library=library)


def _region_of(frame: FrameType) -> str:
    names = frame.f_locals
    found = next((names[name] for name in _REGION_NAMES if name in names), None)
    if isinstance(names, dict):
        # up to 3.12 the frame would keep the copy, and what it names alive
        names.clear()
    if found is None:
        return ""
    return str(getattr(found, "__qualname__", type(found).__qualname__))


def _path_of(modules: list[torch.nn.Module]) -> str:
    """How the innermost of some nested modules is reached from the outermost."""
    if not modules:
        return ""
    names = [type(modules[0]).__name__]
    for outer, inner in pairwise(modules):
        names.append(
            next((name for name, one in outer.named_modules() if one is inner), type(inner).__name__)
        )
    return ".".join(names)
