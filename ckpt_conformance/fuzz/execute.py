"""Run a program under a candidate and note everything that can be seen."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.program import Program, functions
from ckpt_conformance.regions import Region

SEED = 20261
_LEARNING_RATE = 0.125


@dataclass(slots=True)
class Sight:
    """What one run of a program showed.

    Attributes:
        results: The result of each forward, detached, and after it what the backward left.
        gradients: `.grad` of each leaf at the end, by name.
        leaves: The values of the leaves at the end (an optimizer may have moved them).
        versions: The leaves' version counters at the end.
        needs: Whether each result needs a gradient.
        rng: The generator's state after each forward and each backward.
        runs: How often a region's body was entered.
        heard: How often each counted hook was called.
        backwards: How many backwards there were.
        alive: How many storages that regions made were alive at the end.
        state: Grad mode, default dtype, autocast and hooks at the end.
        error: What was raised, as type and message, or None.
        stage: How far it came: `forward`, `backward`, `freed graph` or `done`.
    """

    results: list[Tensor] = field(default_factory=list)
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    leaves: dict[str, Tensor] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    needs: list[bool] = field(default_factory=list)
    rng: list[Tensor] = field(default_factory=list)
    runs: int = 0
    heard: Counter[str] = field(default_factory=Counter)
    backwards: int = 0
    alive: int = 0
    state: str = ""
    error: tuple[str, str] | None = None
    stage: str = "forward"


@dataclass(slots=True)
class _Watch:
    """The storages that regions made, and the hooks that were called; nothing is kept alive."""

    runs: int = 0
    heard: Counter[str] = field(default_factory=Counter)
    seen: list[StorageWeakRef] = field(default_factory=list)

    def note(self, *tensors: Tensor) -> None:
        self.runs += 1
        self.seen += [StorageWeakRef(tensor.untyped_storage()) for tensor in tensors]

    def hear(self, label: str) -> Callable[..., None]:
        def count(*_given: object) -> None:
            self.heard[label] += 1

        return count

    def alive(self) -> int:
        return len({weak.cdata for weak in self.seen if not weak.expired()})


def execute(program: Program, candidate: Candidate) -> Sight:
    """Run a program, with gc off, from a known random state; what is raised is part of what was seen."""
    sight, watch = Sight(), _Watch()
    setup, step = functions(program)
    leaves = dict(setup())
    _seed()
    with _collection_off():
        try:
            _steps(program, candidate, lambda run: step(leaves, run, watch.note, watch.hear), leaves, sight)
            sight.stage = "done"
        except Exception as error:  # noqa: BLE001 - a candidate may raise anything
            sight.error = type(error).__name__, " ".join(str(error).split())[:200]
        sight.alive = watch.alive()
    sight.runs, sight.heard = watch.runs, watch.heard
    sight.state = _state()
    _look_at_leaves(leaves, sight)
    return sight


@contextlib.contextmanager
def _collection_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _steps(
    program: Program,
    candidate: Candidate,
    step: Callable[..., Tensor],
    leaves: Mapping[str, Tensor],
    sight: Sight,
) -> None:
    for _ in range(2 if program.plan == "steps" else 1):
        results = [
            _forward(program, candidate, step, sight) for _ in range(2 if program.plan == "micro" else 1)
        ]
        sight.stage = "backward"
        _backward(program, sum(results[1:], results[0]), leaves, sight)
        sight.rng.append(_generators())
        if program.plan == "steps":
            _optimize(leaves)


def _forward(program: Program, candidate: Candidate, step: Callable[..., Tensor], sight: Sight) -> Tensor:
    def run(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], consumer: Any) -> Any:
        return candidate.run(Region(fn, args, kwargs), consumer)

    with torch.autocast(prelude.DEVICE, dtype=torch.bfloat16, enabled=program.autocast):
        result = step(run)
    sight.results.append(result.detach().clone())
    sight.needs.append(result.requires_grad)
    sight.rng.append(_generators())
    return result


def _backward(program: Program, result: Tensor, leaves: Mapping[str, Tensor], sight: Sight) -> None:
    if not result.requires_grad:
        return
    weighted = result * torch.linspace(0.5, 1.5, result.numel(), dtype=result.dtype, device=result.device)
    loss = (weighted[: (result.numel() + 1) // 2] if program.plan == "half" else weighted).sum()
    del weighted, result
    if program.plan == "grad":
        _take_gradients(loss, leaves, sight)
        return
    if program.plan == "second":
        _second_derivative(loss, leaves, sight)
        return
    if program.plan == "twice":
        loss.backward(retain_graph=True)
        sight.backwards += 1
    wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
    loss.backward(inputs=wanted[: (len(wanted) + 1) // 2] if program.plan == "inputs" else None)
    sight.backwards += 1
    if program.plan == "spent":
        sight.stage = "freed graph"
        loss.backward()


def _second_derivative(loss: Tensor, leaves: Mapping[str, Tensor], sight: Sight) -> None:
    wanted = [leaf for leaf in leaves.values() if leaf.requires_grad]
    first = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
    sight.backwards += 1
    squares = [_square(gradient) for gradient in first if gradient is not None and gradient.requires_grad]
    if squares:
        sum(squares[1:], squares[0]).backward()
        sight.backwards += 1


def _square(gradient: Tensor) -> Tensor:
    real = torch.view_as_real(gradient.resolve_conj()) if gradient.is_complex() else gradient
    return real.double().square().sum()


def _take_gradients(loss: Tensor, leaves: Mapping[str, Tensor], sight: Sight) -> None:
    wanted = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
    gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    sight.gradients |= {f"{name} by grad": gradient for name, gradient in zip(wanted, gradients, strict=True)}
    sight.backwards += 1


def _optimize(leaves: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for leaf in leaves.values():
            if leaf.grad is not None:
                leaf.sub_(_LEARNING_RATE * leaf.grad)
                leaf.grad = None


def _look_at_leaves(leaves: Mapping[str, Tensor], sight: Sight) -> None:
    sight.gradients |= {name: leaf.grad for name, leaf in leaves.items()}
    sight.leaves = {name: leaf.detach() for name, leaf in leaves.items()}
    sight.versions = {name: leaf._version for name, leaf in leaves.items()}


def _seed() -> None:
    """What torch.manual_seed does to the generators in use; that one also formats a stack trace each time."""
    torch.default_generator.manual_seed(SEED)
    if prelude.DEVICE == "cuda":
        torch.cuda.manual_seed(SEED)


def _generators() -> Tensor:
    """The state of the generators that a program draws from."""
    cpu = torch.get_rng_state()
    return torch.cat([cpu, torch.cuda.get_rng_state()]) if prelude.DEVICE == "cuda" else cpu


def _state() -> str:
    """The ambient state in words."""
    return (
        f"grad mode {torch.is_grad_enabled()}, default {torch.get_default_dtype()},"
        f" autocast {torch.is_autocast_enabled(prelude.DEVICE)}, cache {torch.is_autocast_cache_enabled()},"
        f" function modes {torch._C._len_torch_function_stack()},"
        f" dispatch modes {torch._C._len_torch_dispatch_stack()}"
    )
