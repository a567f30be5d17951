"""state: global and thread-local state is the same after as before, and the recompute sees the forward's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.instruments.state import LASTING_PIECES, capture, isolated
from ckpt_conformance.regions import Region, mlp, pass_through
from ckpt_conformance.standard.compare import expect_same, observe, weighted_loss
from ckpt_conformance.standard.evidence import expect_equal, expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, SHOULD, requirement

_DOCS = "https://docs.pytorch.org/docs/stable/checkpoint.html"


@requirement("state/after-forward", MUST, since="2026.12", source="huggingface/trl#6659")
def after_forward(candidate: Candidate, lab: Lab) -> None:
    """After the forward, global and thread-local state is what it was before: modes, flags, filters, hooks.

    A saved-tensor hook that stays on the stack packs the tensors of every later layer; a warning filter or a
    patched function that stays changes code that never heard of checkpointing.

    How: change state in context managers only, and leave them before returning.
    """
    _warm_up(candidate, lab)
    with _unchanged("the forward"):
        candidate.run(mlp(lab.device))


@requirement("state/after-backward", MUST, since="2026.12", source="pytorch/pytorch#180423")
def after_backward(candidate: Candidate, lab: Lab) -> None:
    """After the backward, global and thread-local state is what it was before it.

    What the recompute puts in place has to go again. The engine restores some of it (grad mode, autocast) and
    leaves the rest (default dtype, function modes, flags), so that a test which looks at grad mode sees
    nothing, while every tensor made afterwards has another dtype or lies on another device.

    How: enter fresh contexts for the recompute, and leave them in any case. Never enter a kept mode object
    itself: it remembers where it was entered.
    """
    _warm_up(candidate, lab)
    loss = _loss_of(candidate, mlp(lab.device))
    with _unchanged("the backward"):
        loss.backward()


@requirement("state/after-an-exception-in-forward", MUST, since="2026.12", source="huggingface/trl#6659")
def after_an_exception_in_forward(candidate: Candidate, lab: Lab) -> None:
    """Where the region raises in the forward, global and thread-local state is what it was before.

    Training loops catch errors (out of memory, a bad batch) and go on. A flag that says that checkpointing is
    in progress, or a hook that stays, then changes every iteration after it.

    How: restore in a `finally`, not after the call.
    """
    _warm_up(candidate, lab)
    region, fail = _raising(lab)
    fail.append(True)
    with _unchanged("an exception in the forward"), suppress(Exception):
        candidate.run(region)


@requirement("state/after-an-exception-in-recompute", MUST, since="2026.12", source="huggingface/trl#6659")
def after_an_exception_in_recompute(candidate: Candidate, lab: Lab) -> None:
    """Where the region raises in the recompute, global and thread-local state is what it was before.

    The recompute is where memory is tightest, so it is where errors happen. What it had put in place (the
    default dtype, a device, disabled hooks) stays for the rest of the process unless somebody takes it away.

    How: restore in a `finally`, not after the call.
    """
    _warm_up(candidate, lab)
    region, fail = _raising(lab)
    loss = _loss_of(candidate, region)
    fail.append(True)
    with _unchanged("an exception in the recompute"), suppress(Exception):
        loss.backward()


@requirement(
    "state/own-flags-after-an-exception",
    MUST,
    since="2026.12",
    source="megatron-core 0.19.2, is_checkpointing()",
)
def own_flags_after_an_exception(candidate: Candidate, lab: Lab) -> None:
    """Where the region raises in the forward, no module's flag stays that was set for the region's sake.

    Several implementations say in a global of their own that a checkpointed forward is running, and other
    code asks for it: fused kernels, graph capture, offloading. After a caught exception it says so for ever.

    How: reset the flag in a `finally`; where regions nest, put back what was there rather than False.
    """
    region, fail = _raising(lab)
    _loss_of(candidate, region).backward()
    fail.append(True)
    with suppress(Exception):
        PLAIN.run(region)
    before = _flags()
    with suppress(Exception):
        candidate.run(region)
    changed = sorted(name for name, value in _flags().items() if before.get(name, value) is not value)
    expect_equal("an exception in the forward left flags changed", [], changed)


def _flags() -> dict[str, bool]:
    """Every truth value among the globals of every module, by `module.name`."""
    return {
        f"{module}.{name}": value
        for module, loaded in list(sys.modules.items())
        for name, value in list(getattr(loaded, "__dict__", {}).items())
        if type(value) is bool
    }


@requirement("state/no-grad", MUST, since="2026.12", source="huggingface/diffusers#10107")
def no_grad(candidate: Candidate, lab: Lab) -> None:
    """Under no_grad the region runs under no_grad, and its output requires no grad.

    Evaluation goes through the same modules as training. An implementation that turns grad mode on around the
    region builds a graph in evaluation, and keeps the memory that no_grad was there to save.

    How: call the function and return where grad mode is off.
    """
    with torch.no_grad():
        expected, found = (observe(who, _grad_mode_region(lab.device)) for who in (PLAIN, candidate))
    expect_same(expected, found)


@requirement("state/inference-mode", MUST, since="2026.12", source="huggingface/diffusers#10107")
def inference_mode(candidate: Candidate, lab: Lab) -> None:
    """Under inference_mode the region runs as it does plainly.

    Tensors made there can never be saved for a backward. An implementation that saves its inputs, or hands
    them to a function of the graph, raises in serving code that worked in training.

    How: inference mode turns grad mode off; call the function and return.
    """
    with torch.inference_mode():
        expected, found = (who.run(_without_grad(lab), pass_through) for who in (PLAIN, candidate))
        expect_same_tensor("the output", expected, found)
        expect_equal(
            "whether the output is an inference tensor", expected.is_inference(), found.is_inference()
        )


@requirement("state/grad-mode-in-recompute", SHOULD, since="2026.12", source=_DOCS)
def grad_mode_in_recompute(candidate: Candidate, lab: Lab) -> None:
    """A region that looks at grad mode sees it on in the forward and in the recompute.

    Modules that choose a fast path without grad, or drop their caches, take the other path in one of the two
    runs where it is off: in the recompute, since the engine turns it off, or in the forward of an
    implementation that runs the region as one node. Many of the latter document this.

    How: enter enable_grad before the region's first line, in both runs.
    """
    expected, found = (observe(who, _grad_mode_region(lab.device)) for who in (PLAIN, candidate))
    expect_same(expected, found)


@requirement("state/region-that-turns-grad-off", MUST, since="2026.12", source=_DOCS)
def region_that_turns_grad_off(candidate: Candidate, lab: Lab) -> None:
    """Parts of the region under no_grad stay without grad in the recompute, and the rest keeps its gradients.

    Frozen towers, targets and running statistics are computed under no_grad within a region. The gradients
    must be those of the plain run: none through that part, all of the others.

    How: let the region's own contexts nest in the one of the recompute.
    """
    expected, found = (observe(who, _partly_without_grad(lab.device)) for who in (PLAIN, candidate))
    expect_same(expected, found)


@requirement("state/device-context", MUST, since="2026.12", source="pytorch/pytorch#124788")
def device_context(candidate: Candidate, lab: Lab) -> None:
    """A region run under `with torch.device(...)` makes its tensors on that device in the recompute too.

    The context belongs to the forward's thread and is gone by the time of the backward: masks and positions
    that the region makes land on the CPU, and the recompute fails or silently computes elsewhere.

    How: keep the innermost device context's device, and enter a fresh one around the recompute.
    """
    seen = _seen_by_region(candidate, lab, lambda: torch.empty(1).device.type, lambda: torch.device("meta"))
    expect_equal("the default device differs between the runs", ["meta"] * len(seen), seen)


@requirement("state/default-device-left-behind", SHOULD, since="2026.12", source="pytorch/pytorch#180423")
def default_device_left_behind(candidate: Candidate, lab: Lab) -> None:
    """A default device that was set around forward and backward is gone when it is set back.

    torch.set_default_device enters a context object and leaves it later. Entering that object a second time
    overwrites what it restores: the device before it is forgotten, which compiled code guards on, and where
    contexts are nested a dead one can stay on the mode stack.

    How: enter a new context for the same device, or push the kept one without entering it.
    """
    _warm_up(candidate, lab)
    region = mlp(lab.device)
    with _unchanged("a default device around forward and backward"), _meta_by_default():
        _loss_of(candidate, region).backward()


@requirement("state/default-dtype", SHOULD, since="2026.12", source=_DOCS)
def default_dtype(candidate: Candidate, lab: Lab) -> None:
    """The recompute sees the default dtype of the forward.

    Tensors that a region makes without naming a dtype have another one in the recompute when the default was
    set around the forward only, as loaders of half-precision models do.

    How: keep the default dtype, set it for the recompute, and set the present one again.
    """
    seen = _seen_by_region(candidate, lab, lambda: str(torch.empty(1).dtype), _double_by_default)
    expect_equal("the default dtype differs between the runs", ["torch.float64"] * len(seen), seen)


@requirement(
    "state/function-modes", MAY, since="2026.12", source="pytorch/pytorch#147995", capability="modes"
)
def function_modes(candidate: Candidate, lab: Lab) -> None:
    """A torch function mode that is active in the forward is active in the recompute.

    Modes replace operations: by quantised ones, by counted ones, by ones with other defaults. A recompute
    without the mode gives gradients of another function, and nothing says so.

    How: keep the stack of modes and push what is missing around the recompute, or refuse where a mode that
    is not replayed is active.
    """
    expected, found = (_with_mode(who, lab, SineIsCosine) for who in (PLAIN, candidate))
    expect_same_tensor("gradient of the input", expected, found)


@requirement("state/dispatch-modes", MAY, since="2026.12", source="pytorch/pytorch#84864", capability="modes")
def dispatch_modes(candidate: Candidate, lab: Lab) -> None:
    """A torch dispatch mode that is active in the forward is active in the recompute.

    Replacing random operations by recorded ones, or arithmetic by emulated one, is done by such modes. A
    recompute without the mode gives gradients of another function, and nothing says so.

    How: keep the stack of dispatch modes and push what is missing around the recompute, or refuse.
    """
    expected, found = (_with_mode(who, lab, SineDispatchedAsCosine) for who in (PLAIN, candidate))
    expect_same_tensor("gradient of the input", expected, found)


class SineIsCosine(TorchFunctionMode):
    """Replaces an operation in Python's view."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer sin with cos."""
        return (torch.cos if func in (Tensor.sin, torch.sin) else func)(*args, **(kwargs or {}))


class SineDispatchedAsCosine(TorchDispatchMode):
    """Replaces an operation below autograd."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer sin with cos."""
        replaced = torch.ops.aten.cos.default if func is torch.ops.aten.sin.default else func
        return replaced(*args, **(kwargs or {}))


def _with_mode(candidate: Candidate, lab: Lab, mode: Callable[[], Any]) -> Tensor | None:
    x = lab.tensor(4, 8)
    with mode():
        loss = _loss_of(candidate, Region(lambda x: (x.sin() * x).exp().tanh(), (x,)))
    loss.backward()
    return x.grad


def _seen_by_region(
    candidate: Candidate, lab: Lab, look: Callable[[], str], context: Callable[[], Any]
) -> list[str]:
    """What each run of a region sees when the forward, and it alone, runs in a context."""
    seen: list[str] = []
    x = lab.tensor(4, 8)

    def looks(x: Tensor) -> Tensor:
        seen.append(look())
        return x.exp().tanh()

    with context():
        output = candidate.run(Region(looks, (x,)))
    loss = weighted_loss(output)
    if loss is not None:
        loss.backward()
    return seen


@contextmanager
def _meta_by_default() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def _double_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _warm_up(candidate: Candidate, lab: Lab) -> None:
    """Let a first use do what only a first use does, such as importing and building."""
    with isolated():
        observe(candidate, mlp(lab.device))


@contextmanager
def _unchanged(what: str) -> Iterator[None]:
    """Report what a block left behind."""
    before = capture(LASTING_PIECES)
    yield
    differences = before.differences()
    if differences:
        violated(f"{what} left state behind", expected="no difference", found="; ".join(differences))


def _loss_of(candidate: Candidate, region: Region) -> Tensor:
    loss = weighted_loss(candidate.run(region))
    if loss is None:
        violated("no output requires grad", expected="an output that requires grad", found="none")
    return loss


def _raising(lab: Lab) -> tuple[Region, list[bool]]:
    """A region that raises in its middle once the list has an entry."""
    fail: list[bool] = []
    inner = mlp(lab.device)

    def raises(x: Tensor) -> Tensor:
        y = x.exp()
        if fail:
            raise ArithmeticError("simulated")
        z: Tensor = inner.fn(y)
        return z

    return Region(raises, inner.args, {}, inner.parameters), fail


def _grad_mode_region(device: torch.device) -> Region:
    inner = mlp(device)

    def chooses(x: Tensor) -> Tensor:
        y: Tensor = inner.fn(x.sin() if torch.is_grad_enabled() else x.cos())
        return y

    return Region(chooses, inner.args, {}, inner.parameters)


def _partly_without_grad(device: torch.device) -> Region:
    inner = mlp(device)

    def partly(x: Tensor) -> Tensor:
        with torch.no_grad():
            target = inner.fn(x)
        y: Tensor = (inner.fn(x) - target * 2).sin()
        return y

    return Region(partly, inner.args, {}, inner.parameters)


def _without_grad(lab: Lab) -> Region:
    return Region(lambda x: x.sin().exp(), (lab.tensor(4, 8, grad=False),))
