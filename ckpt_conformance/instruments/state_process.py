"""Readers and writers of the process's and the interpreter's state, one pair a kind."""

from __future__ import annotations

import builtins
import gc
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch

from ckpt_conformance.instruments.state_piece import (
    Piece,
    listed,
    lost_words,
    mapping_words,
    opaque_words,
    stack_words,
)

HOOKS = (
    (sys, "excepthook"), (sys, "unraisablehook"), (sys, "displayhook"), (sys, "stdin"), (sys, "stdout"),
    (sys, "stderr"), (threading, "excepthook"), (warnings, "showwarning"), (warnings, "_showwarnmsg_impl"),
)  # fmt: skip
"""The replaceable functions and streams that are watched, by owner and name."""

PATCHABLE = (
    builtins, gc, random, torch, torch.Tensor, torch.nn.Module, torch.nn.functional, torch.autograd,
    torch.autograd.Function, torch.autograd.graph, torch.cuda, torch.random, torch.cuda.random,
    torch.utils.checkpoint,
)  # fmt: skip
"""The modules and classes in which a function that was replaced is found."""

LAYERS = tuple(
    kind
    for kind in vars(torch.nn).values()
    if isinstance(kind, type) and issubclass(kind, torch.nn.Module) and "forward" in vars(kind)
)
"""The layers whose forward is watched: checkpointing is often patched into one."""

TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
"""The timers of the process; one that goes off ends it unless somebody handles the signal."""

_DESCRIPTORS = (staticmethod, classmethod, property)


def read_warning_filters() -> tuple[Any, ...]:
    """The warning filters, first match first."""
    return tuple(warnings.filters)


def put_back_warning_filters(filters: tuple[Any, ...]) -> None:
    """Set the filters; resetting first makes the interpreter forget what it decided by the old ones."""
    warnings.resetwarnings()
    warnings.filters[:] = filters  # type: ignore[index]


def warning_filters_words(before: tuple[Any, ...], after: tuple[Any, ...]) -> str:
    """How many filters there were and are."""
    if before == after:
        return ""
    return f"{len(before)} became {len(after)}" if len(before) != len(after) else "replaced or reordered"


def read_numpy_generator() -> Any:
    """The state of numpy's legacy global generator, or None where nobody imported numpy."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "random"):
        return None
    name, keys, *rest = numpy.random.get_state()
    return (name, keys.tobytes(), *rest)


def put_back_numpy_generator(state: Any) -> None:
    """Undo draws from numpy's legacy global generator, if there was one."""
    if state is not None:
        numpy = sys.modules["numpy"]
        name, keys, *rest = state
        numpy.random.set_state((name, numpy.frombuffer(keys, dtype=numpy.uint32), *rest))


def read_working_directory() -> str | None:
    """The working directory, or None where it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 - a Path would only be turned back into text
    except FileNotFoundError:
        return None


def put_back_working_directory(path: str | None) -> None:
    """Go back."""
    if path is not None:
        os.chdir(path)


def read_environment() -> dict[str, str]:
    """The environment variables."""
    return dict(os.environ)


def put_back_environment(variables: Mapping[str, str]) -> None:
    """Unset what was set, set what was unset or changed."""
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    for name, value in variables.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def read_signal_handlers() -> dict[str, Any]:
    """The handler of each signal, by the signal's name."""
    return {number.name: signal.getsignal(number) for number in signal.Signals}


def put_back_signal_handlers(handlers: Mapping[str, Any]) -> None:
    """Install the handlers; ones that are not Python's cannot be named, and so stay."""
    for name, handler in handlers.items():
        number = signal.Signals[name]
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


def read_timers() -> tuple[tuple[float, float], ...]:
    """The seconds to go and the interval of each of `TIMERS`; zeros where it is not set."""
    return tuple(signal.getitimer(timer) for timer in TIMERS)


def put_back_timers(state: tuple[tuple[float, float], ...]) -> None:
    """Stop what was started; one that ran before is its owner's, whether it has gone off or not."""
    for timer, before, now in zip(TIMERS, state, read_timers(), strict=True):
        if now[0] and not before[0]:
            signal.setitimer(timer, 0)


def timers_words(before: tuple[tuple[float, float], ...], after: tuple[tuple[float, float], ...]) -> str:
    """How many timers were started."""
    started = sum(now[0] > 0 and not was[0] for was, now in zip(before, after, strict=True))
    return f"{started} started" if started else ""


def read_tracing() -> tuple[Any, Any]:
    """The functions that trace and profile this thread."""
    return sys.gettrace(), sys.getprofile()


def put_back_tracing(state: tuple[Any, Any]) -> None:
    """Set them again."""
    sys.settrace(state[0])
    sys.setprofile(state[1])


def read_hooks() -> dict[str, Any]:
    """The replaceable functions and streams of the interpreter."""
    return {f"{owner.__name__}.{name}": getattr(owner, name, None) for owner, name in HOOKS}


def put_back_hooks(state: Mapping[str, Any]) -> None:
    """Put the functions and streams back in place."""
    for owner, name in HOOKS:
        value = state[f"{owner.__name__}.{name}"]
        if value is not getattr(owner, name, None):
            setattr(owner, name, value)


def read_namespaces() -> tuple[dict[str, Any], ...]:
    """What each of `PATCHABLE` holds."""
    return tuple(dict(vars(owner)) for owner in PATCHABLE)


def put_back_namespaces(state: tuple[dict[str, Any], ...]) -> None:
    """Undo monkeypatches; names that were added stay, since a late import adds names too."""
    for owner, before in zip(PATCHABLE, state, strict=True):
        for name in _patched(before, dict(vars(owner))):
            setattr(owner, name, before[name])


def namespaces_words(before: tuple[dict[str, Any], ...], after: tuple[dict[str, Any], ...]) -> str:
    """Which functions were replaced or removed, by their full names."""
    names = [
        f"{_full_name(owner)}.{name}"
        for owner, one, two in zip(PATCHABLE, before, after, strict=True)
        for name in _patched(one, two)
    ]
    return f"{listed(names)} replaced" if names else ""


def _patched(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, value in before.items()
        if after.get(name) is not value and (callable(value) or isinstance(value, _DESCRIPTORS))
    ]


def _full_name(owner: Any) -> str:
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"


def read_forwards() -> dict[Any, Any]:
    """The forward of each of `LAYERS`."""
    return {kind: vars(kind).get("forward") for kind in LAYERS}


def put_back_forwards(state: Mapping[Any, Any]) -> None:
    """Undo monkeypatches of a layer's forward."""
    for kind, forward in state.items():
        if vars(kind).get("forward") is not forward:
            kind.forward = forward


def forwards_words(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> str:
    """Which were replaced, by their full names."""
    names = [f"{_full_name(kind)}.forward" for kind in before if after.get(kind) is not before[kind]]
    return f"{listed(names)} replaced" if names else ""


def read_loaded_modules() -> dict[str, Any]:
    """The modules that are loaded."""
    return dict(sys.modules)


def put_back_loaded_modules(modules: Mapping[str, Any]) -> None:
    """Put modules back that were removed or replaced; ones that came since stay."""
    for name, module in modules.items():
        if sys.modules.get(name) is not module:
            sys.modules[name] = module


def read_threads() -> dict[int | None, str]:
    """The names of the threads that Python started and that still run, by ident."""
    return {
        thread.ident: thread.name
        for thread in threading.enumerate()
        if not isinstance(thread, threading._DummyThread)
    }


def threads_words(before: Mapping[int | None, str], after: Mapping[int | None, str]) -> str:
    """Which threads are new; one that ended is nobody's loss."""
    extra = [name for ident, name in after.items() if ident not in before]
    return f"{len(extra)} left running ({', '.join(extra[:4])})" if extra else ""


def read_collector() -> tuple[bool, tuple[int, int, int], int]:
    """Whether the garbage collector is on, its thresholds and its debug flags."""
    return gc.isenabled(), gc.get_threshold(), gc.get_debug()


def put_back_collector(state: tuple[bool, tuple[int, int, int], int]) -> None:
    """Set the collector as it was; nothing is collected by that."""
    enabled, threshold, debug = state
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    gc.set_debug(debug)


def read_import_path() -> tuple[str, ...]:
    """Where modules are looked for."""
    return tuple(sys.path)


def put_back_import_path(path: tuple[str, ...]) -> None:
    """Set where modules are looked for."""
    sys.path[:] = path


RANDOM_PIECES = (
    Piece("Python's generator", random.getstate, random.setstate, opaque_words),
    Piece("numpy's generator", read_numpy_generator, put_back_numpy_generator, opaque_words),
)
"""The random state of the interpreter's libraries."""

PROCESS_PIECES = (
    Piece("loaded modules", read_loaded_modules, put_back_loaded_modules, lost_words),
    Piece("functions", read_namespaces, put_back_namespaces, namespaces_words),
    Piece("layers", read_forwards, put_back_forwards, forwards_words),
    Piece("interpreter hooks", read_hooks, put_back_hooks, mapping_words),
    Piece("signal handlers", read_signal_handlers, put_back_signal_handlers, mapping_words),
    Piece("warning filters", read_warning_filters, put_back_warning_filters, warning_filters_words),
    Piece("environment", read_environment, put_back_environment, mapping_words),
    Piece("working directory", read_working_directory, put_back_working_directory),
    Piece("import path", read_import_path, put_back_import_path),
    Piece("timers", read_timers, put_back_timers, timers_words),
    Piece("tracing", read_tracing, put_back_tracing, stack_words),
    Piece("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Piece("garbage collector", read_collector, put_back_collector),
    Piece("threads", read_threads, None, threads_words),
)
"""State of the process and the interpreter."""
