"""A generated program: source text in parts, with what is known about it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from types import CodeType
from typing import Any, Literal, TypeAlias, get_args

import torch

from ckpt_conformance.fuzz import prelude

Plan: TypeAlias = Literal[
    "once", "twice", "half", "grad", "micro", "steps", "inputs", "second", "spent", "none", "into", "thread",
    "elsewhere",
]  # fmt: skip
"""How the backward goes: one backward; the same one twice with retain_graph; from one half of the result
only; torch.autograd.grad; two forwards before one backward; two steps with an optimizer; backward with
inputs; a second derivative; a second backward over a graph that the first one freed, which is an error; no
backward at all; into gradients that are there already, and must stay the same tensors; in another thread than
the forward; the whole step in another thread."""

FILE = "<program>"
"""What programs' source is compiled as the file of."""

Autocast: TypeAlias = Literal["", "bfloat16", "float16", "backward"]
"""The dtype of the autocast around the forward, if any; or one of bfloat16 around the backward alone."""

PLANS: tuple[Plan, ...] = get_args(Plan)


class ProgramError(Exception):
    """A saved program that cannot be read; the message is one line."""


@dataclass(frozen=True, slots=True)
class Program:
    """Source text: `setup` binds leaves, `step` runs regions and binds `result`.

    In `step`, `run(region, args, kwargs, consumer)` is the candidate, `note(*tensors)` marks the tensors
    that a region made, `hear(label)` gives a hook that is counted, and `keep(label, tensor)` retains a
    tensor's gradient.

    Attributes:
        setup: Lines that bind the leaves.
        leaves: Their names: the tensors whose gradients are compared.
        step: Lines that run the regions and bind `result`, one flat tensor.
        plan: How the backward goes.
        autocast: Which autocast it runs under.
        depth: How deep its regions nest.
        features: The operations and shapes of call that it uses, for grouping.
    """

    setup: tuple[str, ...]
    leaves: tuple[str, ...]
    step: tuple[str, ...]
    plan: Plan
    autocast: Autocast
    depth: int
    features: frozenset[str]

    def source(self) -> str:
        """The program as the two functions that are run."""
        names = ", ".join(self.leaves)
        lines = [
            "def setup():", *_indented(self.setup), f"    return {{{_pairs(self.leaves)}}}", "",
            "def step(leaves, run, note, hear, keep):",
            f"    {names}, = [leaves[name] for name in {self.leaves!r}]",
            *_indented(self.step), "    return result",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def compiled(self) -> CodeType:
        """The code object of `source`."""
        return _compiled(self.source())

    def to_json(self) -> str:
        """One line of JSON, which `from_json` reads again."""
        # asdict() would copy every line
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps({**data, "features": sorted(self.features)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Program:
        """Read a saved program. It is source text: replay only a corpus that you trust.

        Raises:
            ProgramError: The text is no saved program.
        """
        try:
            data = json.loads(text)
            lists = {name: tuple(data[name]) for name in ("setup", "leaves", "step")}
            plan, features = data["plan"], frozenset(data["features"])
            made = cls(**lists, plan=plan, autocast=data["autocast"], depth=data["depth"], features=features)
        except (ValueError, KeyError, TypeError) as error:
            raise ProgramError(f"no saved program: {error!r}") from error
        if made.plan not in PLANS:
            raise ProgramError(f"no saved program: there is no plan {made.plan!r}")
        if made.autocast not in get_args(Autocast):
            raise ProgramError(f"no saved program: there is no autocast {made.autocast!r}")
        return made


@lru_cache(maxsize=4)
def _compiled(source: str) -> CodeType:
    """Each program runs twice, plainly and under the candidate."""
    return compile(source, FILE, "exec")


def _indented(lines: tuple[str, ...]) -> list[str]:
    return [f"    {line}" for line in lines]


def _pairs(names: tuple[str, ...]) -> str:
    return ", ".join(f"{name!r}: {name}" for name in names)


def functions(program: Program) -> tuple[Callable[[], Mapping[str, Any]], Callable[..., torch.Tensor]]:
    """The program's two functions, `setup()` and `step(leaves, run, note, hear, keep)`."""
    names: dict[str, Any] = {
        "torch": torch,
        "F": torch.nn.functional,
        "DEVICE": prelude.DEVICE,
        **_prelude(),
    }
    exec(program.compiled(), names)  # noqa: S102 - running generated source is what a fuzzer does
    return names["setup"], names["step"]


def _prelude() -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(prelude).items()
        if getattr(value, "__module__", "") == prelude.__name__
    }
