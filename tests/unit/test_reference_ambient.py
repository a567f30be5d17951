"""The state around a region is replayed for its recompute, and the present one put back."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from ckpt_conformance.reference import checkpoint
from ckpt_conformance.reference.reentrant import Reentrant

STYLES = [checkpoint, Reentrant()]


class Scale(TorchFunctionMode):
    """Halves whatever torch.ones gives."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 0.5 if func is torch.ones else out


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.exps = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.exps += func is torch.ops.aten.exp.default
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def autocast_state():
    return (
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        torch.is_autocast_cache_enabled(),
    )


AROUND = {
    "autocast": (lambda: torch.autocast("cpu", dtype=torch.bfloat16), autocast_state),
    "autocast off within": (lambda: torch.autocast("cpu", enabled=False), autocast_state),
    "autocast without cache": (
        lambda: torch.autocast("cpu", dtype=torch.float16, cache_enabled=False),
        autocast_state,
    ),
    "default dtype": (lambda: default_dtype(torch.float64), torch.get_default_dtype),
    "default device": (lambda: torch.device("meta"), lambda: torch.ones(1).device),
    "function mode": (Scale, lambda: torch.ones(1).item()),
}


@pytest.mark.parametrize("run", STYLES, ids=["hooks", "reentrant"])
@pytest.mark.parametrize("kind", AROUND)
def test_the_recompute_sees_the_state_of_the_forward(kind, run):
    around, state = AROUND[kind]
    seen = []

    def fn(x):
        seen.append(state())
        return x.exp()

    x = torch.ones(4, requires_grad=True)
    with around():
        out = run(fn, x)
    before = state()
    out.sum().backward()
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert state() == before


@pytest.mark.parametrize("kind", AROUND)
def test_the_state_around_the_backward_is_put_back(kind):
    around, state = AROUND[kind]
    x = torch.ones(4, requires_grad=True)
    inside = []

    def fn(x):
        inside.append(state())
        return x.exp()

    out = checkpoint(fn, x).sum()
    with around():
        before = state()
        modes = len(_get_current_function_mode_stack())
        torch.autograd.backward([out])
        assert state() == before
        assert len(_get_current_function_mode_stack()) == modes
    assert inside[0] == inside[1]


def test_a_dispatch_mode_of_the_forward_is_active_in_the_recompute():
    x = torch.ones(4, requires_grad=True)
    with Count() as count:
        out = checkpoint(torch.exp, x)
    out.sum().backward()
    assert count.exps == 2
    assert not _get_current_dispatch_mode_stack()


def test_a_dispatch_mode_around_the_backward_alone_sees_the_recompute():
    x = torch.ones(4, requires_grad=True)
    out = checkpoint(torch.exp, x).sum()
    with Count() as count:
        out.backward()
    assert count.exps == 1


def test_a_mode_around_both_is_not_pushed_twice():
    x = torch.ones(4, requires_grad=True)
    with Count() as count:
        checkpoint(torch.exp, x).sum().backward()
    assert count.exps == 2


@pytest.mark.parametrize("run", STYLES, ids=["hooks", "reentrant"])
def test_the_generator_is_replayed_and_stays_where_it_is(run):
    drawn = []

    def fn(x):
        drawn.append(torch.rand(4))
        return (x * drawn[-1]).exp()

    out = run(fn, torch.ones(4, requires_grad=True)).sum()
    torch.rand(3)
    before = torch.get_rng_state()
    out.backward()
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("how", ["argument", "container", "closure"])
def test_an_explicit_generator_is_replayed_and_stays_where_it_is(how):
    generator, drawn = torch.Generator().manual_seed(5), []

    def draw(x, source):
        drawn.append(torch.rand(4, generator=source))
        return (x * drawn[-1]).exp()

    calls = {
        "argument": lambda x: checkpoint(draw, x, generator),
        "container": lambda x: checkpoint(lambda x, d: draw(x, d["g"]), x, {"g": generator}),
        "closure": lambda x: checkpoint(lambda x: draw(x, generator), x),
    }
    out = calls[how](torch.ones(4, requires_grad=True)).sum()
    before = generator.get_state()
    out.backward()
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(before, generator.get_state())


def test_a_region_that_puts_the_generator_back_itself_is_replayed_too():
    drawn = []

    def fn(x):
        with torch.random.fork_rng(devices=[]):
            drawn.append(torch.rand(4))
        return (x * drawn[-1]).exp()

    out = checkpoint(fn, torch.ones(4, requires_grad=True)).sum()
    torch.rand(3)
    out.backward()
    assert torch.equal(drawn[0], drawn[1])


def test_casts_of_a_recompute_do_not_stay_in_the_cache():
    linear = torch.nn.Linear(4, 4)
    x = torch.ones(2, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = checkpoint(lambda x: linear(x).sin(), x)
    out.sum().backward()
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not linear(x).any()
