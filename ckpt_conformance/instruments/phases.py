"""The phases of a training step, and a census at the end of each.

Autograd itself tells backward and recompute apart: inside a backward the engine turns grad mode off, and
a recompute turns it on again. With `create_graph=True` grad mode stays on, and a backward is told as a
recompute.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from ckpt_conformance.instruments.census import Census, take_census


class Phase(StrEnum):
    """Where in a training step one is."""

    FORWARD = "forward"
    RECOMPUTE = "recompute"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    BETWEEN = "between"


def engine_phase() -> Phase:
    """The phase as autograd sees it: backward or recompute while a backward runs here, else forward."""
    if torch._C._current_graph_task_id() == -1:
        return Phase.FORWARD
    return Phase.RECOMPUTE if torch.is_grad_enabled() else Phase.BACKWARD


@dataclass(slots=True)
class PhaseLog:
    """Censuses by step and phase, each taken when the phase ended.

    Attributes:
        device: The device counted; None counts all.
        entries: Step, phase and census, in order of time. Steps count from 1.
    """

    device: torch.device | str | None = None
    entries: list[tuple[int, Phase, Census]] = field(default_factory=list)
    _step: int = 1

    def end_of(self, phase: Phase) -> None:
        """Take a census at the end of a phase; after `BETWEEN` the next step begins."""
        self.entries.append((self._step, phase, take_census(self.device)))
        if phase is Phase.BETWEEN:
            self._step += 1

    def at(self, step: int, phase: Phase) -> Census:
        """The last census at the end of a phase in a step.

        Raises:
            KeyError: None was taken.
        """
        for taken_in, taken_at, census in reversed(self.entries):
            if (taken_in, taken_at) == (step, phase):
                return census
        raise KeyError(f"no census at the end of {phase} in step {step}")


@contextlib.contextmanager
def census_by_phase(device: torch.device | str | None = None) -> Iterator[PhaseLog]:
    """Take a census when each phase of the training steps inside ends.

    Forward ends where `Tensor.backward` begins; each module's forward within a backward is the end of a
    recompute, one that is stopped early included. The optimizer's step is noted by its hook. Call
    `end_of(Phase.BETWEEN)` at the end of each step.
    """
    log = PhaseLog(device)
    backward = torch.Tensor.backward

    def noted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        outermost = engine_phase() is Phase.FORWARD
        if outermost:
            log.end_of(Phase.FORWARD)
        backward(tensor, *args, **kwargs)
        if outermost:
            log.end_of(Phase.BACKWARD)

    def recomputed(*_: Any) -> None:
        if engine_phase() is Phase.RECOMPUTE:
            log.end_of(Phase.RECOMPUTE)

    handles = [
        torch.nn.modules.module.register_module_forward_hook(recomputed, always_call=True),
        register_optimizer_step_post_hook(lambda *_: log.end_of(Phase.OPTIMIZER)),
    ]
    torch.Tensor.backward = noted  # type: ignore[method-assign, assignment]
    try:
        yield log
    finally:
        torch.Tensor.backward = backward  # type: ignore[method-assign]
        for handle in handles:
            handle.remove()
