"""Run a program under a candidate and note everything that can be seen."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import _get_current_function_mode
from torch.utils import _device
from torch.utils._python_dispatch import _get_current_dispatch_mode

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.program import Program, functions
from ckpt_conformance.fuzz.raised import raised_by
from ckpt_conformance.fuzz.state import ambient_state
from ckpt_conformance.regions import Region

SEED = 20261
_LEARNING_RATE = 0.125
_Within: TypeAlias = Callable[[], AbstractContextManager[Any]]


@dataclass(slots=True)
class Sight:
    """What one run of a program showed.

    Attributes:
        results: The result of each forward, detached.
        gradients: `.grad` of each leaf at the end, by name.
        leaves: The values of the leaves at the end (an optimizer may have moved them).
        versions: The leaves' version counters at the end.
        needs: Whether each result needs a gradient.
        rng: The generator's state after each forward and each backward.
        runs: How often a region's body was entered.
        heard: How often each counted hook was called.
        forms: What each region gave its consumer: containers, shapes, dtypes, and values that are no tensors.
        trained: The leaves that need a gradient at the end.
        replaced: Leaves whose `.grad` is another tensor than the one that was there before the backward.
        marks: The names of the attributes that leaves have at the end.
        backwards: How many backwards there were.
        alive: How many storages that regions made were alive after each backward, while the graph was, and
            at the end.
        states: The ambient state after each forward, after each backward and at the end.
        error: What was raised, as type and message, or None.
        by: Who raised it; see `raised_by`.
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
    forms: list[str] = field(default_factory=list)
    marks: dict[str, list[str]] = field(default_factory=dict)
    trained: set[str] = field(default_factory=set)
    replaced: list[str] = field(default_factory=list)
    backwards: int = 0
    alive: list[int] = field(default_factory=list)
    states: list[tuple[Any, ...]] = field(default_factory=list)
    error: tuple[str, str] | None = None
    by: str = ""
    stage: str = "forward"


@dataclass(slots=True)
class _Watch:
    """The storages that regions made, and the hooks that were called.

    Nothing is kept alive but `kept` and the gradients `given` to leaves before the backward.
    """

    runs: int = 0
    heard: Counter[str] = field(default_factory=Counter)
    seen: list[StorageWeakRef] = field(default_factory=list)
    kept: dict[str, Tensor] = field(default_factory=dict)
    given: dict[str, Tensor] = field(default_factory=dict)
    inside: int = 0

    def note(self, *tensors: Tensor) -> None:
        self.runs += 1
        self.seen += [StorageWeakRef(tensor.untyped_storage()) for tensor in tensors]

    def hear(self, label: str) -> Callable[..., None]:
        def count(*_given: object) -> None:
            self.heard[label] += 1

        return count

    def keep(self, label: str, tensor: Tensor) -> None:
        if tensor.requires_grad:
            tensor.retain_grad()
            self.kept[label] = tensor

    def alive(self) -> int:
        return len({weak.cdata for weak in self.seen if not weak.expired()})


def execute(
    program: Program,
    candidate: Candidate,
    within: _Within = contextlib.nullcontext,
    look: Callable[[Tensor], None] = lambda _result: None,
) -> Sight:
    """Run a program, with gc off, from a known state; what is raised is part of what was seen.

    Args:
        program: The program.
        candidate: What runs its regions.
        within: A context for each forward.
        look: Called with what each backward starts from.
    """
    sight, watch, leaves = Sight(), _Watch(), dict[str, Tensor]()
    setup, step = functions(program)
    run = _Run(program, candidate, step, leaves, within, look)
    with _collection_off():
        try:
            leaves.update(setup())
            _seed()
            _in_thread(program.plan == "elsewhere", lambda: _steps(run, sight, watch))
            sight.stage = "done"
        except Exception as error:  # noqa: BLE001 - a candidate may raise anything
            sight.error = type(error).__name__, " ".join(str(error).split())[:200]
            sight.by = raised_by(error)
        _look_at_watch(watch, sight)
    sight.states.append(ambient_state())
    _look_at_leaves(leaves, watch.given, sight)
    _put_back()
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


@dataclass(frozen=True, slots=True)
class _Run:
    """What one run of a program consists of."""

    program: Program
    candidate: Candidate
    step: Callable[..., Tensor]
    leaves: Mapping[str, Tensor]
    within: _Within
    look: Callable[[Tensor], None]


def _in_thread(another: bool, work: Callable[[], None]) -> None:
    """Do it here or in a thread of its own; what it raises is raised here."""
    if not another:
        work()
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def _steps(run: _Run, sight: Sight, watch: _Watch) -> None:
    plan = run.program.plan
    for _ in range(2 if plan == "steps" else 1):
        sight.stage = "forward"
        results = [_forward(run, sight, watch) for _ in range(2 if plan == "micro" else 1)]
        sight.stage = "backward"
        if plan == "into":
            watch.given = _give_gradients(run.leaves)
        if plan != "none":
            with _autocast(run.program, "backward"):
                _backward(run, sum(results[1:], results[0]), sight)
        sight.rng.append(_generators())
        sight.states.append(ambient_state())
        sight.alive.append(watch.alive())
        del results
        if plan == "steps":
            _optimize(run.leaves)


def _forward(run: _Run, sight: Sight, watch: _Watch) -> Tensor:
    def call(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], consumer: Any) -> Any:
        def consume(output: Any) -> Any:
            if sight.stage == "forward" and watch.inside == 1:
                sight.forms.append(_form(output))
            return consumer(output)

        watch.inside += 1
        try:
            made = run.candidate.run(Region(fn, args, kwargs), consume)
        finally:
            watch.inside -= 1
        if isinstance(made, Tensor):
            watch.seen.append(StorageWeakRef(made.untyped_storage()))
        return made

    with run.within(), _autocast(run.program, "forward"):
        result = run.step(run.leaves, call, watch.note, watch.hear, watch.keep)
    sight.results.append(result.detach().clone())
    sight.needs.append(result.requires_grad)
    sight.rng.append(_generators())
    sight.states.append(ambient_state())
    return result


def _autocast(program: Program, during: str) -> AbstractContextManager[Any]:
    dtype = cast_dtype(program)
    if dtype is None or (program.autocast == "backward") != (during == "backward"):
        return contextlib.nullcontext()
    return torch.autocast(prelude.DEVICE, dtype=dtype)


def cast_dtype(program: Program) -> torch.dtype | None:
    """What the autocast around a program's forward or backward casts to, if there is one."""
    if not program.autocast:
        return None
    return torch.float16 if program.autocast == "float16" else torch.bfloat16


WITH_A_GRAPH = " with a graph"
"""What is said of a tensor that has one although it is given under no_grad."""


def _form(output: Any) -> str:
    """What a region gave, without the values of its tensors; and under no_grad, whether it has a graph."""
    if isinstance(output, Tensor):
        graph = output.grad_fn is not None and not torch.is_grad_enabled()
        return f"{output.dtype}{tuple(output.shape)}{WITH_A_GRAPH if graph else ''}"
    if isinstance(output, dict):
        return f"{{{', '.join(f'{name!r}: {_form(value)}' for name, value in output.items())}}}"
    if isinstance(output, (tuple, list)):
        inside = ", ".join(map(_form, output))
        return f"({inside},)" if isinstance(output, tuple) else f"[{inside}]"
    return repr(output)


def _backward(run: _Run, result: Tensor, sight: Sight) -> None:
    program, leaves = run.program, run.leaves
    if not result.requires_grad:
        return
    run.look(result)
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
    given = wanted[: (len(wanted) + 1) // 2] if program.plan == "inputs" else None
    _in_thread(program.plan == "thread", lambda: loss.backward(inputs=given))
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


def _give_gradients(leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Gradients for a backward to add to, which may be views of one buffer that a communication reads."""
    given = {name: torch.zeros_like(leaf) for name, leaf in leaves.items() if leaf.requires_grad}
    for name, gradient in given.items():
        leaves[name].grad = gradient
    return given


def _optimize(leaves: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for leaf in leaves.values():
            if leaf.grad is not None:
                leaf.sub_(_LEARNING_RATE * leaf.grad)
                leaf.grad = None


def _look_at_watch(watch: _Watch, sight: Sight) -> None:
    sight.gradients = {f"{label}, retained": tensor.grad for label, tensor in watch.kept.items()}
    watch.kept.clear()
    sight.alive.append(watch.alive())
    sight.runs, sight.heard = watch.runs, watch.heard


def _look_at_leaves(leaves: Mapping[str, Tensor], given: Mapping[str, Tensor], sight: Sight) -> None:
    sight.gradients |= {name: leaf.grad for name, leaf in leaves.items()}
    sight.leaves = {name: leaf.detach() for name, leaf in leaves.items()}
    sight.versions = {name: leaf._version for name, leaf in leaves.items()}
    sight.marks = {name: sorted(vars(leaf)) for name, leaf in leaves.items()}
    sight.trained = {name for name, leaf in leaves.items() if leaf.requires_grad}
    sight.replaced = [name for name, gradient in given.items() if leaves[name].grad is not gradient]


def _seed() -> None:
    """What torch.manual_seed does to the generators in use; that one also formats a stack trace each time."""
    torch.default_generator.manual_seed(SEED)
    if prelude.DEVICE == "cuda":
        torch.cuda.manual_seed(SEED)


def _generators() -> Tensor:
    """The state of the generators that a program draws from."""
    cpu = torch.get_rng_state()
    return torch.cat([cpu, torch.cuda.get_rng_state()]) if prelude.DEVICE == "cuda" else cpu


def _put_back() -> None:
    """What one program has left changed must not show in the next one."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.set_autocast_enabled(prelude.DEVICE, False)
    torch.set_autocast_cache_enabled(True)
    torch.autograd.set_detect_anomaly(False)
    torch._C._set_cudnn_benchmark(False)
    torch._C._set_deterministic_algorithms(prelude.DEVICE == "cuda")
    while (mode := _get_current_function_mode()) is not None:
        mode.__exit__(None, None, None)
    while (below := _get_current_dispatch_mode()) is not None:
        below.__exit__(None, None, None)
    torch.set_default_device(None)
    _device.CURRENT_DEVICE = None
