"""The modes that a program's forward runs in, and how its regions notice them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckpt_conformance.fuzz.plain_operations import FLOATING
from ckpt_conformance.fuzz.values import Scope


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode: the lines that enter and leave it, and an expression of a value that differs in it."""

    enter: str
    leave: str
    noticed: str


def _context(made: str, noticed: str) -> Mode:
    return Mode(f"mode = {made}; mode.__enter__()", "mode.__exit__(None, None, None)", noticed)


MODES: Mapping[str, Mode] = {
    "default-dtype": Mode(
        "torch.set_default_dtype(torch.float64)",
        "torch.set_default_dtype(torch.float32)",
        "({} * (2 if torch.get_default_dtype() == torch.float64 else 3)).sin()",
    ),
    "device-context": _context("torch.device('meta')", "({} * (2 if torch.empty(0).is_meta else 3)).sin()"),
    "default-device": Mode(
        "torch.set_default_device('meta')",
        "torch.set_default_device(None)",
        "({} * (2 if torch.empty(0).is_meta else 3)).sin()",
    ),
    "cast-cache": Mode(
        "torch.set_autocast_cache_enabled(False)",
        "torch.set_autocast_cache_enabled(True)",
        "({} * (3 if torch.is_autocast_cache_enabled() else 2)).sin()",
    ),
    "function-mode": _context("Doubles()", "{}.sin().exp()"),
    "dispatch-mode": _context("DoublesBelow()", "{}.sin().exp()"),
}
"""Every mode by name."""


def choose_mode(scope: Scope) -> None:
    """Choose the mode that the program's forward runs in, in most programs none."""
    scope.leaves.mode = scope.choose(("",) * 24 + tuple(MODES))
    if scope.leaves.mode:
        scope.features.add(scope.leaves.mode)


def within(scope: Scope, lines: list[str]) -> list[str]:
    """The lines in the program's mode, which is left also where they raise."""
    mode = MODES.get(scope.leaves.mode)
    if mode is None:
        return lines
    return [mode.enter, "try:", *(f"    {line}" for line in lines), "finally:", f"    {mode.leave}"]


def notice(scope: Scope) -> None:
    """Let a region do what its mode has a say in."""
    mode = MODES.get(scope.leaves.mode)
    value = scope.pick(lambda found: found.kind in FLOATING) if mode else None
    if mode and value:
        value.fresh = False
        scope.bind(mode.noticed.format(value.name), value.shape, value.kind, fresh=False, grad=value.grad)
