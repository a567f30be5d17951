"""How a person would write a reference from one object to another: `.losses`, `[0]`, `.__closure__['x']`."""

from __future__ import annotations

import functools
import gc
import re
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from ckpt_conformance.instruments.names import type_name
from ckpt_conformance.instruments.trace.native import native_edges

THREAD_LOCAL = ".<thread-local>"
_UNKNOWN = ".<{}>"
_KEY = 200


def label(parent: Any, child: Any, native: list[tuple[str, Any]] | None = None) -> str:
    """The text to write after the parent, so that the whole reads as the child.

    Args:
        parent: What refers.
        child: What is referred to.
        native: The parent's native references, where they are known; objects made by reading them again would
            not be the same ones.
    """
    for text, value in native if native is not None else native_edges(parent):
        if value is child:
            return text
    if isinstance(parent, dict):
        # the order of insertion may differ between runs
        return min((text for text, value in _items(parent) if value is child), default=_fallback(child))
    for matches, references in _WAYS:
        if matches(parent):
            for text, value in references(parent):
                if value is child:
                    return text
    return next((text for text, value in _attributes(parent) if value is child), _fallback(child))


def fold(text: str) -> str:
    """A path with the dictionaries of instances and modules left out: `a.__dict__['b']` is `a.b`."""
    text = _NAMESPACE.sub(r".\1", text)
    text = _CLOSURE.sub(lambda found: f".__closure__[{found[1].split(',')[int(found[2])]!r}]", text)
    return _THREAD_LOCAL.sub(r".\1", text)


_NAMESPACE = re.compile(r"\.__dict__\['([^'\\]+)'\]")
_CLOSURE = re.compile(r"\.__closure__<([^>]+)>\[(\d+)\]\.cell_contents")
_THREAD_LOCAL = re.compile(re.escape(THREAD_LOCAL) + r"\[<weakref>\]\['([^'\\]+)'\]")


def _fallback(child: Any) -> str:
    return _UNKNOWN.format(type_name(child))


def _items(mapping: Any) -> Iterator[tuple[str, Any]]:
    for key, value in dict.items(mapping):
        yield f"[{_written(key)}]", value
    for key in dict.keys(mapping):
        yield ".<key>", key


def _written(key: Any) -> str:
    """A key, in a form that says the same in every run."""
    if isinstance(key, (str, int, float, bool, bytes, type(None))):
        text = repr(key)
        return text if len(text) <= _KEY else f"{text[: _KEY - 1]}…"
    if isinstance(key, weakref.ref):
        return "<weakref>"
    if isinstance(key, type):
        return key.__qualname__
    return f"<{type_name(key)}>"


def _elements(sequence: Any) -> Iterator[tuple[str, Any]]:
    for position, value in enumerate(sequence):
        yield f"[{position}]", value


def _members(values: Any) -> Iterator[tuple[str, Any]]:
    for value in values:
        yield "{...}", value


def _named(*names: str) -> Callable[[Any], Iterator[tuple[str, Any]]]:
    def references(value: Any) -> Iterator[tuple[str, Any]]:
        for name in names:
            yield f".{name}", getattr(value, name, None)

    return references


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    # the names belong to the cells, which the next two hops lead to; `fold` brings them together
    yield f".__closure__<{','.join(function.__code__.co_freevars)}>", function.__closure__
    yield from _named("__defaults__", "__kwdefaults__", "__dict__", "__globals__", "__annotations__")(
        function
    )


def _of_cell(cell: types.CellType) -> Iterator[tuple[str, Any]]:
    try:
        yield ".cell_contents", cell.cell_contents
    except ValueError:  # empty
        return


def _of_frame(frame: types.FrameType) -> Iterator[tuple[str, Any]]:
    names = frame.f_locals
    for name, value in names.items():
        yield f".f_locals[{name!r}]", value
    if isinstance(names, dict) and names is not frame.f_globals:
        # the copy would keep what it names alive
        names.clear()
    yield ".f_back", frame.f_back


def _of_generator(generator: Any) -> Iterator[tuple[str, Any]]:
    frame = getattr(generator, "gi_frame", None) or getattr(generator, "cr_frame", None)
    if frame is not None:
        yield from ((f".gi_frame{text}", value) for text, value in _of_frame(frame))
    yield from _named("gi_yieldfrom", "cr_await")(generator)


def _of_class(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(kind).items()):
        yield f".{name}", value
    yield ".__bases__", kind.__bases__
    yield ".__mro__", kind.__mro__


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Attributes in the instance's dictionary or slots; no property of the class is run."""
    namespace = _namespace(value)
    yield ".__dict__", namespace
    for name, attribute in sorted(namespace.items(), key=lambda item: str(item[0])):
        yield f".{name}", attribute
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield f".{name}", slot.__get__(value)
                except AttributeError:  # an empty slot
                    continue
    yield ".__class__", type(value)


def _namespace(value: Any) -> Mapping[str, Any]:
    try:
        namespace = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return namespace if isinstance(namespace, dict) else {}


def _of_thread_local(value: Any) -> Iterator[tuple[str, Any]]:
    # one dictionary of all threads' dictionaries, which has no name in Python
    yield from ((THREAD_LOCAL, child) for child in gc.get_referents(value) if type(child) is dict)


def _of_tensor(tensor: Tensor) -> Iterator[tuple[str, Any]]:
    yield from _named("_backward_hooks", "_post_accumulate_grad_hooks")(tensor)
    yield from _attributes(tensor)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


_EXCEPTION = ("__traceback__", "__context__", "__cause__", "args", "__dict__")
_WAYS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Iterator[tuple[str, Any]]]], ...] = (
    (_is(list, tuple, deque), _elements),
    (_is(set, frozenset), _members),
    (_is(types.FunctionType), _of_function),
    (_is(types.MethodType), _named("__self__", "__func__")),
    (_is(functools.partial), _named("func", "args", "keywords")),
    (_is(types.CellType), _of_cell),
    (_is(types.FrameType), _of_frame),
    (_is(types.TracebackType), _named("tb_next", "tb_frame")),
    (_is(types.GeneratorType, types.CoroutineType), _of_generator),
    (_is(BaseException), _named(*_EXCEPTION)),
    (_is(property), _named("fget", "fset", "fdel")),
    (_is(staticmethod, classmethod), _named("__func__", "__dict__")),
    (_is(type), _of_class),
    (_is(threading.local), _of_thread_local),
    (_is(Tensor), _of_tensor),
)
