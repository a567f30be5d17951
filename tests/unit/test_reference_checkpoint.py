"""The function-style API where published implementations are silently wrong, wasteful, or refuse."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

from ckpt_conformance.fuzz.prelude import Box, Called
from ckpt_conformance.reference import CheckpointError, checkpoint
from tests.unit.reference_samples import Exp, sample


@pytest.fixture
def counted():
    calls = []

    def fn(x):
        calls.append(1)
        return torch.tanh(x * 2)

    return fn, calls


def test_a_random_operation_that_fills_its_noise_late_gets_its_gradient():
    module = nn.Sequential(nn.Linear(6, 6), nn.RReLU())
    gradients = []
    for run in (module, lambda x: checkpoint(module, x)):
        torch.manual_seed(3)
        x = sample(4, 6)
        run(x).sum().backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


def test_an_in_place_change_of_a_saved_tensor_within_the_region_is_refused_as_plainly():
    def fn(x):
        a = x * 2
        b = a.sin()
        a.mul_(3)
        return b * a.exp()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        fn(sample(4)).sum().backward()
    with pytest.raises(CheckpointError, match="modified by an inplace operation"):
        checkpoint(fn, sample(4)).sum().backward()


def test_in_place_work_that_is_legal_gives_the_plain_gradient():
    def fn(x):
        y = (x * 2).add_(1).relu_()
        z = y * y.sin()
        z[0] = 0
        return z

    x = sample(4)
    fn(x).sum().backward()
    expected, x.grad = x.grad, None
    checkpoint(fn, x).sum().backward()
    assert torch.equal(expected, x.grad)


@pytest.mark.parametrize(
    "call",
    [
        lambda fn, t, x: checkpoint(lambda a, b: fn(a, b), t, x),
        lambda fn, t, x: checkpoint(lambda d: fn(*d["deep"]), {"deep": (t, x)}),
        lambda fn, t, x: checkpoint(lambda *, a, b: fn(a, b), a=t, b=x),
        lambda fn, t, x: checkpoint(lambda b: fn(t, b), x),
        lambda fn, t, x: checkpoint(Called(lambda b: fn(t, b)), x),
        lambda fn, t, x: checkpoint(lambda box: fn(box.x, box.more), Box(t, x)),
        lambda fn, t, x: checkpoint(lambda box: fn(box.more[0][:], x), Box(None, [t[:]])),
    ],
    ids=["positional", "container", "keyword", "closure", "an object", "dataclass", "view in a dataclass"],
)
def test_an_in_place_change_of_an_input_after_forward_is_refused(call):
    t, x = torch.ones(4), sample(4)
    out = call(lambda a, b: (a + b).sin(), t, x)
    t.add_(1)
    with pytest.raises(CheckpointError, match="changed in place"):
        out.sum().backward()


def test_an_in_place_change_of_a_parameter_that_no_operation_saves_is_refused():
    linear, x = nn.Linear(6, 6), torch.ones(4, 6)
    out = checkpoint(lambda x: linear(x).sin(), x)
    with torch.no_grad():
        linear.bias.add_(1)
    with pytest.raises(CheckpointError, match="by closure was changed"):
        out.sum().backward()


def test_a_counter_that_the_region_moves_itself_is_left_alone():
    seen, x = torch.zeros(1), sample(4)

    def fn(x):
        with torch.no_grad():
            seen.add_(1)
        return x.sin().exp()

    outs = [checkpoint(fn, x), checkpoint(fn, x)]
    sum(out.sum() for out in outs).backward()
    assert torch.allclose(x.grad, 2 * x.cos() * x.sin().exp())


def test_an_in_place_change_of_the_output_gives_right_gradients():
    x = sample(4)
    out = checkpoint(torch.tanh, x)
    out.mul_(3)
    out.sum().backward()
    assert torch.allclose(x.grad, 3 * (1 - x.tanh() ** 2).detach())


def test_a_region_that_saves_less_in_the_recompute_is_named():
    calls = []

    def forgetful(x):
        calls.append(1)
        return x.sin().exp() if len(calls) == 1 else x.sin()

    with pytest.raises(CheckpointError, match=r"forgetful saved 1 tensors for backward, the forward saved 2"):
        checkpoint(forgetful, sample(4)).sum().backward()


@pytest.mark.parametrize(
    "other", [lambda x: x.double(), lambda x: x[:2], lambda x: x.to_sparse().to_dense().repeat(2)]
)
def test_a_region_that_saves_another_kind_of_tensor_is_refused(other):
    calls = []

    def fn(x):
        calls.append(1)
        y = x * 2
        return (y if len(calls) == 1 else other(y)).sin()

    with pytest.raises(CheckpointError, match="differs from its forward in saved tensor 0"):
        checkpoint(fn, sample(4)).sum().backward()


def test_a_dict_that_the_region_changes_is_rebuilt_for_the_recompute():
    def fn(d):
        d["x"] = d["x"].sin()
        return d["x"].exp()

    x = sample(4)
    fn({"x": x}).sum().backward()
    expected, x.grad = x.grad, None
    checkpoint(fn, {"x": x}).sum().backward()
    assert torch.equal(expected, x.grad)


def test_one_recompute_serves_a_backward(counted):
    fn, calls = counted
    checkpoint(fn, sample(4)).sum().backward()
    assert len(calls) == 2


def test_each_backward_recomputes_again_with_the_same_result(counted):
    fn, calls = counted
    x = sample(4)
    out = checkpoint(fn, x).sum()
    out.backward(retain_graph=True)
    first, x.grad = x.grad, None
    out.backward()
    assert torch.equal(first, x.grad)
    assert len(calls) == 3


def test_the_second_derivative_is_right():
    x = sample(4)
    (first,) = torch.autograd.grad(checkpoint(lambda x: x.sin() * x, x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.allclose(second, 2 * x.cos() - x * x.sin())


def test_a_gradient_taken_within_the_region_is_right():
    def fn(x):
        (force,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        return force.exp()

    x = sample(4) * 1
    (expected,) = torch.autograd.grad(fn(x).sum(), x)
    (found,) = torch.autograd.grad(checkpoint(fn, x).sum(), x)
    assert torch.equal(expected, found)


def test_a_custom_function_may_read_its_saved_tensors_twice(counted, monkeypatch):
    monkeypatch.setattr(Exp, "reads", 3)
    calls, x = [], sample(4)

    def fn(x):
        calls.append(1)
        return Exp.apply(x * 2) * 2

    checkpoint(fn, x).sum().backward()
    assert torch.allclose(x.grad, 4 * (x * 2).exp())
    assert len(calls) == 2


def test_a_saved_tensor_without_gradient_comes_back_as_the_same_object():
    mask, seen = torch.ones(4), []

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, mask):
            ctx.save_for_backward(mask)
            return x * mask

        @staticmethod
        def backward(ctx, grad):
            seen.append(ctx.saved_tensors[0] is mask)
            return grad, None

    checkpoint(lambda x: Keep.apply(x, mask), sample(4)).sum().backward()
    assert seen == [True]


def test_two_thousand_regions_in_one_graph_go_through():
    x = sample(2)
    out = x
    for _ in range(2000):
        out = checkpoint(torch.sin, out)
    out.sum().backward()
    assert x.grad.isfinite().all()


def test_two_backwards_in_two_threads_keep_their_masks_apart():
    wrong = []

    def work():
        for _ in range(20):
            x, masks = torch.ones(64, requires_grad=True), []

            def fn(x, masks=masks):
                masks.append(torch.nn.functional.dropout(torch.ones(64)))
                return (x * masks[-1]).sin()

            checkpoint(fn, x).sum().backward()
            wrong.extend([1] * (not torch.equal(*masks)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_without_gradients_the_region_runs_once_and_is_not_kept(counted):
    fn, calls = counted
    with torch.no_grad():
        out = checkpoint(fn, sample(4))
    assert not out.requires_grad
    assert len(calls) == 1


def test_every_keyword_reaches_the_region():
    def fn(x, *, function, use_reentrant, preserve_rng_state):
        assert (function, use_reentrant, preserve_rng_state) == (1, 2, 3)
        return x.sin()

    checkpoint(fn, sample(4), function=1, use_reentrant=2, preserve_rng_state=3).sum().backward()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_forward_mode_derivatives_go_through():
    x = sample(4).detach()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones(4))
        out = checkpoint(torch.sin, dual)
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(out).tangent, x.cos())


def test_hooks_on_the_graph_fire_once():
    x, calls = sample(4), []
    x.register_hook(lambda _: calls.append("x"))
    out = checkpoint(lambda x: x.sin().exp(), x)
    out.register_hook(lambda _: calls.append("out"))
    out.sum().backward()
    assert calls == ["out", "x"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_works_inside_a_compiled_function_and_around_one():
    def fn(x):
        return (x.sin() * 2).tanh()

    x = sample(4)
    fn(x).sum().backward()
    expected, x.grad = x.grad, None
    torch.compile(lambda x: checkpoint(fn, x).sum(), backend="eager", fullgraph=True)(x).backward()
    assert torch.allclose(x.grad, expected)
    x.grad = None
    checkpoint(torch.compile(fn, backend="eager"), x).sum().backward()
    assert torch.allclose(x.grad, expected)
