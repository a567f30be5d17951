"""The conformance standard, test suite and leak report for PyTorch activation checkpointing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ckpt_conformance.candidate import Candidate, Expected
    from ckpt_conformance.leaks import LeakError, leak_guard
    from ckpt_conformance.suite import check_checkpoint, parametrize_with_checks

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "Expected",
    "LeakError",
    "check_checkpoint",
    "leak_guard",
    "parametrize_with_checks",
]

_HOMES = {
    "Candidate": "ckpt_conformance.candidate",
    "Expected": "ckpt_conformance.candidate",
    "LeakError": "ckpt_conformance.leaks",
    "leak_guard": "ckpt_conformance.leaks",
    "check_checkpoint": "ckpt_conformance.suite",
    "parametrize_with_checks": "ckpt_conformance.suite",
}


# The pytest plugin imports this package in every test run of everyone who has it
# installed, so the public names, and torch with them, load when they are first asked for.
def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
