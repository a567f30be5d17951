"""Say a value as Python source, so that a script can have it again."""

from __future__ import annotations

import enum
import importlib
import math
from functools import partial, singledispatch
from types import ModuleType
from typing import Any, Final

import torch

from ckpt_conformance.report.bundle import Bundle, NoScriptError

_PLAIN: Final = (type(None), bool, int, str, bytes)


def expression(bundle: Bundle, value: Any) -> str:
    """The source of a value; what it needs is added to the bundle.

    Numbers, strings, containers, dtypes, devices, enum members, modules, partial objects, and functions and
    classes that can be imported have one.

    Raises:
        NoScriptError: The value exists only at run time.
    """
    if type(value) in _PLAIN or (type(value) is float and math.isfinite(value)):
        return repr(value)
    return _expression(value, bundle)


@singledispatch
def _expression(value: Any, bundle: Bundle) -> str:
    return reference(bundle, value)


@_expression.register
def _(value: partial, bundle: Bundle) -> str:  # type: ignore[type-arg]
    arguments = [expression(bundle, part) for part in (value.func, *value.args)]
    arguments += [f"{name}={expression(bundle, part)}" for name, part in value.keywords.items()]
    return f"{bundle.import_('functools', 'partial')}({', '.join(arguments)})"


@_expression.register
def _(value: torch.dtype, bundle: Bundle) -> str:
    return f"{bundle.import_('torch')}.{str(value).removeprefix('torch.')}"


@_expression.register
def _(value: torch.device, bundle: Bundle) -> str:
    return f"{bundle.import_('torch')}.device({str(value)!r})"


@_expression.register
def _(value: enum.Enum, bundle: Bundle) -> str:
    return f"{reference(bundle, type(value))}.{value.name}"


@_expression.register
def _(value: ModuleType, bundle: Bundle) -> str:
    return f"{bundle.import_('importlib')}.import_module({value.__name__!r})"


@_expression.register
def _(value: list, bundle: Bundle) -> str:  # type: ignore[type-arg]
    return f"[{', '.join(expression(bundle, part) for part in value)}]"


@_expression.register
def _(value: tuple, bundle: Bundle) -> str:  # type: ignore[type-arg]
    return f"({''.join(expression(bundle, part) + ', ' for part in value).strip()})"


@_expression.register
def _(value: dict, bundle: Bundle) -> str:  # type: ignore[type-arg]
    pairs = (f"{expression(bundle, key)}: {expression(bundle, part)}" for key, part in value.items())
    return f"{{{', '.join(pairs)}}}"


def reference(bundle: Bundle, value: Any) -> str:
    """The name of a function or class in the bundle: taken from this package, or imported.

    Raises:
        NoScriptError: It cannot be imported by its name.
    """
    module, path = _address(value)
    name, dot, rest = path.partition(".")
    return f"{bundle.take(module, name)}{dot}{rest}"


def _address(value: Any) -> tuple[str, str]:
    """The module and the qualified name that lead to the value."""
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(path, str):
        raise NoScriptError(f"an object of {type(value).__qualname__} exists only at run time")
    if "<" in path or module == "__main__":
        raise NoScriptError(f"{module}:{path} cannot be imported")
    try:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise NoScriptError(f"{module}:{path} cannot be imported") from error
    if found != value:
        raise NoScriptError(f"{module}:{path} is another object than the one in use")
    return module, path
