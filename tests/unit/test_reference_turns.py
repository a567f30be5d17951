"""A region that waits for a backward does not keep the regions in that backward from running."""

from __future__ import annotations

import importlib.util
import threading
from typing import Any

import pytest
import torch
from torch import Tensor

from ckpt_conformance.reference import checkpoint, patience
from ckpt_conformance.reference.ambient import turns

DEEPER_THAN_ONE_THREAD = 61
"""The engine runs up to 60 backwards within one another in their caller's thread, and more in its own."""


class _Nested(torch.autograd.Function):
    """The identity, whose backward runs a backward through the next one; the innermost runs a region."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, region: Any, depth: int) -> Tensor:
        ctx.region, ctx.depth = region, depth
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        with torch.enable_grad():
            x = torch.ones(2, requires_grad=True)
            y = _Nested.apply(x, ctx.region, ctx.depth - 1) if ctx.depth else ctx.region(x)
            y.sum().backward()
        assert x.grad is not None
        return gradient * x.grad, None, None


def _within(seconds: float, run: Any) -> Any:
    """What `run` gives, or nothing where it waits for ever."""
    given: list[Any] = []
    thread = threading.Thread(target=lambda: given.append(run()), daemon=True)
    thread.start()
    thread.join(seconds)
    return given[0] if given else None


def test_a_backward_within_a_region_recomputes_another_region_in_another_thread(monkeypatch):
    monkeypatch.setattr(patience, "SECONDS", -1)  # wait for ever
    threads = set()

    def inner(x):
        threads.add(threading.get_ident())
        return x.sin().exp()

    def outer(x):
        start = x.detach().requires_grad_()
        with torch.enable_grad():
            y = _Nested.apply(start, lambda z: checkpoint(inner, z), DEEPER_THAN_ONE_THREAD)
            (slope,) = torch.autograd.grad(y.sum(), start)
        return x * slope

    def step():
        x = torch.ones(2, requires_grad=True)
        checkpoint(outer, x).sum().backward()
        return x.grad

    gradient = _within(60, step)

    one = torch.ones(2)
    assert gradient is not None, "it waits for itself"
    torch.testing.assert_close(gradient, one.cos() * one.sin().exp())
    assert len(threads) > 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_region_on_a_gpu_asks_for_the_gradient_of_a_region_in_it(monkeypatch):
    monkeypatch.setattr(patience, "SECONDS", -1)

    def outer(x):
        start = x.detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(checkpoint(torch.sin, start).sum(), start)
        return x * slope

    def step():
        x = torch.ones(2, device="cuda", requires_grad=True)
        checkpoint(outer, x).sum().backward()
        return x.grad.cpu()

    gradient = _within(60, step)

    assert gradient is not None, "it waits for itself"
    torch.testing.assert_close(gradient, torch.ones(2).cos())


class _Ends(turns._Turn):
    """A turn that ends while it is looked at, as in another thread."""

    def has_this_thread(self) -> bool:
        turns._TURNS.remove(self)
        return False


def test_a_turn_that_ends_meanwhile_hides_no_other(monkeypatch):
    own = turns._Turn()
    own.threads.add(threading.get_ident())
    monkeypatch.setattr(turns, "_TURNS", [_Ends(), own])
    with turns.turn():
        lasting = turns._TURNS[:]
    assert lasting == [own]


def test_a_run_that_fails_leaves_its_turn(monkeypatch):
    monkeypatch.setattr(turns, "_TURNS", [])

    def fail():
        with turns.turn(fail):
            assert lasting.packs == [fail]
            raise KeyError

    with turns.turn():
        (lasting,) = turns._TURNS
        with pytest.raises(KeyError):
            fail()
        assert (lasting.packs, lasting.threads) == ([], {threading.get_ident()})
    assert (turns._TURNS, lasting.threads) == ([], set())


def test_a_thread_that_has_waited_long_enough_takes_a_turn_of_its_own(monkeypatch):
    monkeypatch.setattr(patience, "SECONDS", 0.01)
    counts = []

    def impatient():
        with turns.turn():
            counts.append(len(turns._TURNS))

    with turns.turn():
        thread = threading.Thread(target=impatient)
        thread.start()
        thread.join()
        counts.append(len(turns._TURNS))
    assert (counts, turns._TURNS) == ([2, 1], [])
    assert not turns._LOCK._is_owned()


def test_a_torch_that_tells_no_hooks_will_do(monkeypatch):
    monkeypatch.delattr(torch._C._autograd, "_top_saved_tensors_default_hooks")
    spec = importlib.util.spec_from_file_location(f"{turns.__package__}.anew", turns.__file__)
    older = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(older)
    with older.turn():
        assert older._TURNS[0].has_this_thread()
    assert not older._TURNS
