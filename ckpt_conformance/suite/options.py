"""What a pytest run of the suite was asked to do."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import torch

from ckpt_conformance.candidate import Candidate, CandidateError, Expected, Style
from ckpt_conformance.expectations import ExpectationsError, check_all, read_expectations
from ckpt_conformance.report.model import ReportError
from ckpt_conformance.resolve import resolve
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import Requirement, requirements
from ckpt_conformance.suite.limits import Limits
from ckpt_conformance.suite.selection import SelectionError, selected
from ckpt_conformance.suite.traced_lab import traced_lab
from ckpt_conformance.suite.watch import GIB

SECONDS: Final = 20.0
"""How long a requirement may take; one that says why it is slow gets `SLOW` times as long."""
SLOW: Final = 6.0
MEMORY: Final = 4.0
"""How many GiB of its own a worker may hold: ten times what the standard needs, with torch in it."""

MAKING: Final = 120.0
"""How many seconds importing and making a candidate may take: it may compile an extension."""
LIMITS: Final = Limits(MAKING, SECONDS, int(MEMORY * GIB))
"""What a worker may take where the user says nothing."""


class DeviceError(Exception):
    """A device that is not there; the message is one line that says what to do."""


BAD_INPUT: Final = (CandidateError, DeviceError, ExpectationsError, ReportError, SelectionError)
"""What is the user's to mend: one line, exit code 2 (4 where the user ran pytest)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run of the suite was asked to do.

    Attributes:
        targets: What names the candidates; empty where only the conftest's hook gives some.
        style: The calling style, where the user said it.
        device: Where the requirements run.
        select: Families or ids; all when empty.
        full: Whether slow requirements run.
        expect: The expectations file, or None.
        seconds: The time limit that the user set, or None.
        memory: How many GiB of memory a worker may hold.
        order: The seed of a random order of the requirements; None for the standard's own.
    """

    targets: tuple[str, ...]
    style: Style | None
    device: str
    select: tuple[str, ...]
    full: bool
    expect: Path | None
    seconds: float | None
    memory: float = MEMORY
    order: int | None = None

    @classmethod
    def of(cls, config: pytest.Config) -> Options:
        """The options of a pytest run: of the command line, else of the ini file."""
        style = _option(config, "style")
        expect = _option(config, "expect")
        seconds = _option(config, "timeout")
        memory = _option(config, "memory_limit")
        return cls(
            targets=tuple(config.getoption("ckpt_candidate") or config.getini("ckpt_candidate")),
            style=Style(style) if style else None,
            device=_option(config, "device") or "auto",
            select=tuple(config.getoption("ckpt_select") or config.getini("ckpt_select")),
            full=_option(config, "level") == "full",
            expect=config.invocation_params.dir / expect if expect else None,
            seconds=float(seconds) if seconds else None,
            memory=float(memory) if memory else MEMORY,
            order=int(_option(config, "order") or 0) or None,
        )

    def limit(self, requirement: Requirement) -> float:
        """How many seconds the requirement may take."""
        return (self.seconds or SECONDS) * (SLOW if requirement.slow else 1.0)

    def limits(self, requirement: Requirement | None = None) -> Limits:
        """What a worker may take, at a requirement or at one that is not slow."""
        seconds = (self.seconds or SECONDS) if requirement is None else self.limit(requirement)
        return Limits(MAKING, seconds, self.most_bytes)

    @property
    def most_bytes(self) -> int:
        """How much memory a worker may hold."""
        return int(self.memory * GIB)

    def lab(self) -> Lab:
        """The lab on the device that was asked for."""
        return traced_lab(device_named(self.device))

    def chosen(self) -> list[Requirement]:
        """The requirements that were asked for, in the order in which they are to run."""
        chosen = selected(list(requirements()), self.select, full=self.full)
        if self.order is not None:
            random.Random(self.order).shuffle(chosen)  # noqa: S311 - no secret
        return chosen

    def candidates(self, config: pytest.Config) -> dict[str, Candidate]:
        """What the user typed, or the name of one that the conftest's hook gave, to candidate."""
        if self.targets:
            return {target: resolve(target, self.style) for target in self.targets}
        given = config.hook.pytest_ckpt_candidates(config=config)
        return {candidate.name: candidate for several in given for candidate in several}


def expected_of(candidate: Candidate, file: Path | None) -> dict[str, Expected]:
    """What is expected to fail: the candidate's own word, then the file's.

    Raises:
        ExpectationsError: Either is malformed or names a requirement that does not exist.
    """
    ids = {made.id for made in requirements()}
    check_all(f"candidate {candidate.name!r}", candidate.expected_failures, ids)
    in_file = read_expectations(file, ids) if file else {}
    return dict(candidate.expected_failures) | in_file


def _option(config: pytest.Config, name: str) -> str:
    return str(config.getoption(f"ckpt_{name}") or config.getini(f"ckpt_{name}") or "")


def device_named(name: str) -> str:
    """The device that `auto`, `cpu`, `cuda` or `cuda:1` means here.

    Raises:
        DeviceError: It is not there.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(f"there is no device {name[:50]!r}; name auto, cpu or cuda") from None
    if device.type not in {"cpu", "cuda"}:
        raise DeviceError(f"the standard is not about the device {name!r}; name auto, cpu or cuda")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(f"there is no device {name!r} here; name auto or cpu")
    return name
