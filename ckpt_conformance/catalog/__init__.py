"""Ready-made candidates for published implementations, one file each, imported lazily.

Adding one is a line of `CATALOG`, and a module here that makes the candidate.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate that can be had by name.

    Attributes:
        name: What the user types.
        module: The module here that makes it.
        attribute: The `Candidate`, or a function of no arguments that gives it.
        distribution: The distribution that must be installed; empty where torch is all it needs.
        install: What pip is asked for to get it.
    """

    name: str
    module: str
    attribute: str
    distribution: str = ""
    install: str = ""

    @property
    def missing(self) -> str:
        """What to type to get what the candidate needs; empty where it is there."""
        if not self.distribution or _installed(self.distribution):
            return ""
        return f"python -m pip install {self.install or self.distribution}"

    def load(self) -> Any:
        """The attribute: a `Candidate`, or a function of no arguments that gives one."""
        return getattr(importlib.import_module(f"{__name__}.{self.module}"), self.attribute)


def _installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


CATALOG: Final = (
    Entry("reference", "reference", "reference"),
    Entry("reference-discard", "reference", "reference_discard"),
    Entry("reference-reentrant", "reference", "reference_reentrant"),
    Entry("torch-reentrant", "torch_checkpoint", "REENTRANT"),
    Entry("torch-nonreentrant", "torch_checkpoint", "NONREENTRANT"),
    Entry("megatron", "megatron", "megatron", "megatron-core"),
    Entry("megatron-discard", "megatron", "megatron_discard", "megatron-core"),
)
"""Every candidate that has a name, in the order in which they are listed."""


def entries() -> Iterator[Entry]:
    """Every entry, whether what it needs is installed or not."""
    yield from CATALOG


def find(name: str) -> Entry | None:
    """The entry of that name."""
    return next((entry for entry in CATALOG if entry.name == name), None)
