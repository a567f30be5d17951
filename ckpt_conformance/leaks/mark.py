"""A test function as the step of a guard, for the marker `ckpt_leaks`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ckpt_conformance.leaks.guard import leak_guard


def run_as_steps(
    function: Callable[..., Any], arguments: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """Run a function again and again under a guard with the given options.

    Raises:
        LeakError: Each run keeps memory.
        TypeError: An option that the guard does not have.
    """
    with leak_guard(**options) as steps:
        for _ in steps:
            function(**arguments)
