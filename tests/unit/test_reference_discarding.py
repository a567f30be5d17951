"""The discarding API: what comes back, what is kept, and what is refused."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from ckpt_conformance.reference import CheckpointError, CheckpointWithoutOutput, backend, checkpoint


@pytest.fixture(autouse=True, params=["extension", "python"])
def chosen(request, monkeypatch):
    if request.param == "python" and not hasattr(torch.UntypedStorage, "_swap_data_ptr_"):
        pytest.skip("the Python backend needs torch 2.12")
    monkeypatch.setenv("CKPT_REFERENCE_BACKEND", request.param)
    return request.param


def sample(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).requires_grad_()


def consume(hidden):
    return (hidden.sin() * hidden.view(-1)[1:].sum()).sum()


def run(fn, consumer, *inputs):
    """Discarding: the loss, with the output discarded."""
    use = CheckpointWithoutOutput()
    out = use.checkpoint(fn, *inputs)
    loss = consumer(out)
    use.discard_output_and_register_recompute(loss)
    return out, loss


def gradients(fn, consumer, inputs):
    consumer(fn(*inputs)).backward()
    expected = [tensor.grad for tensor in inputs]
    for tensor in inputs:
        tensor.grad = None
    run(fn, consumer, *inputs)[1].backward()
    return expected, [tensor.grad for tensor in inputs]


@pytest.mark.parametrize(
    "fn",
    [torch.tanh, torch.exp, torch.relu, lambda x: torch.softmax(x * 2, -1), lambda x: (x * 2).t() * 3],
    ids=["tanh", "exp", "relu", "softmax", "transposed"],
)
def test_gradients_are_the_plain_ones(fn):
    def consumer(hidden):
        return (hidden.sin() * hidden.reshape(-1)[1:].sum()).sum()

    expected, found = gradients(fn, consumer, [sample(4, 6)])
    assert torch.equal(expected[0], found[0])


def test_memory_is_free_until_backward_and_whole_afterwards():
    x = sample(4, 6)
    out, loss = run(torch.exp, consume, x)
    assert out.untyped_storage().nbytes() == 0
    loss.backward()
    assert torch.equal(out, x.exp())


def test_restoring_moves_no_version():
    out, loss = run(torch.exp, consume, sample(4, 6))
    version = out._version
    loss.backward()
    assert out._version == version


def test_a_discarded_output_says_so_when_read(chosen):
    if chosen == "python" or not backend().guards:
        pytest.skip("only a guarded storage can")
    out, _ = run(torch.exp, consume, sample(4, 6))
    with pytest.raises(RuntimeError, match="memory was discarded"):
        out.sum()


def test_an_output_that_is_its_input_is_kept():
    x = sample(4, 6) * 1
    out, loss = run(lambda x: x, consume, x)
    assert out.untyped_storage().nbytes() == 96
    loss.backward()


@pytest.mark.parametrize(
    "view", [lambda x: x.view(-1), lambda x: x[1:], lambda x: x.t(), lambda x: x.detach()]
)
def test_an_output_that_is_a_view_of_its_input_leaves_the_input_intact(view):
    x = sample(4, 6) * 1
    before = x.detach().clone()
    result = run(lambda x: (view(x), x * 2), lambda outs: outs[0].sin().sum() + outs[1].sin().sum(), x)
    assert torch.equal(x, before)
    result[1].backward()
    assert torch.equal(x, before)


def test_an_output_in_a_nested_input_is_kept():
    x = sample(4, 6) * 1
    _, loss = run(lambda d: d["deep"][0], consume, {"deep": [x]})
    assert x.untyped_storage().nbytes() == 96
    loss.backward()


def test_a_parameter_or_a_view_of_one_as_output_is_kept():
    module = nn.Linear(6, 4)
    run(lambda x: (module.weight.t(), module(x)), lambda outs: (outs[1] @ outs[0].t()).sum(), sample(2, 6))[1]
    assert module.weight.untyped_storage().nbytes() == 96


def test_a_closure_tensor_as_output_is_kept():
    bias, upstream = torch.ones(4, 6), sample(4, 6) * 2

    def fn(x):
        return bias, upstream, upstream.view(-1), x * 2

    run(fn, lambda outs: sum(out.sin().sum() for out in outs), sample(4, 6))
    assert bias.untyped_storage().nbytes() == upstream.untyped_storage().nbytes() == 96


def test_two_outputs_on_one_storage_come_back():
    def fn(x):
        y = x * 2
        return y[:2], y[2:]

    expected, found = gradients(fn, lambda outs: (outs[0].sin() * outs[1].cos()).sum(), [sample(4, 6)])
    assert torch.equal(expected[0], found[0])


def test_every_recompute_runs_the_region_once():
    calls = []

    def fn(x):
        calls.append(1)
        return torch.tanh(x * 2)

    run(fn, consume, sample(4, 6))[1].backward()
    assert len(calls) == 2


def test_a_second_backward_gives_the_same():
    x = sample(4, 6)
    _, loss = run(lambda x: torch.tanh(x * 2), consume, x)
    loss.backward(retain_graph=True)
    first, x.grad = x.grad, None
    loss.backward()
    assert torch.equal(first, x.grad)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_chain_under_one_hook_comes_back_in_any_order(reverse):
    x = sample(4, 6)
    plain = torch.tanh(torch.exp(x) * 2)
    consume(plain).backward()
    expected, x.grad = x.grad, None
    first, second = CheckpointWithoutOutput(), CheckpointWithoutOutput()
    loss = consume(second.checkpoint(lambda h: torch.tanh(h * 2), first.checkpoint(torch.exp, x)))
    for use in (second, first) if reverse else (first, second):
        use.discard_output_and_register_recompute(loss)
    loss.backward()
    assert torch.equal(expected, x.grad)


@pytest.mark.parametrize("outer", [checkpoint, lambda fn, x: torch_checkpoint(fn, x, use_reentrant=False)])
def test_it_works_within_a_region(outer):
    def fn(x):
        use = CheckpointWithoutOutput()
        hidden = use.checkpoint(lambda h: torch.tanh(h * 2), x * 3)
        result = hidden.sin() * 2
        use.discard_output_and_register_recompute(result)
        return result.cos()

    x = sample(4, 6)
    (torch.tanh(x * 3 * 2).sin() * 2).cos().sum().backward()
    expected, x.grad = x.grad, None
    outer(fn, x).sum().backward()
    assert torch.equal(expected, x.grad)


def test_it_works_around_a_region():
    expected, found = gradients(
        lambda x: checkpoint(lambda h: torch.tanh(h * 2), x.sin()) * 2, consume, [sample(4, 6)]
    )
    assert torch.equal(expected[0], found[0])


def test_an_output_that_backward_never_asks_for_stays_discarded():
    x = sample(4, 6)
    out, _ = run(torch.exp, consume, x)
    (x * 2).sum().backward()
    assert out.untyped_storage().nbytes() == 0


def test_nothing_is_held_after_backward():
    gc.collect()
    gc.disable()
    try:
        x = sample(4, 6)

        def fn(x):
            return torch.tanh(x * 2)

        region = weakref.ref(fn)
        out, loss = run(fn, consume, x)
        watched = StorageWeakRef(out.untyped_storage())
        loss.backward()
        del fn, out, loss
        assert region() is None
        assert watched.expired()
    finally:
        gc.enable()


def test_nothing_is_held_when_backward_never_runs():
    gc.collect()
    gc.disable()
    try:

        def fn(x):
            return torch.tanh(x * 2)

        region = weakref.ref(fn)
        out, loss = run(fn, consume, sample(4, 6))
        watched = StorageWeakRef(out.untyped_storage())
        del fn, out, loss
        assert region() is None
        assert watched.expired()
    finally:
        gc.enable()


def test_under_no_grad_it_runs_plainly():
    use = CheckpointWithoutOutput()
    with torch.no_grad():
        out = use.checkpoint(torch.exp, sample(4, 6))
        use.discard_output_and_register_recompute(out.sin())
    assert torch.equal(out, sample(4, 6).exp())


def test_discarding_before_anything_ran_is_refused():
    with pytest.raises(CheckpointError, match=r"call checkpoint\(\) first"):
        CheckpointWithoutOutput().discard_output_and_register_recompute(sample(1))


def test_discarding_twice_is_refused():
    use = CheckpointWithoutOutput()
    loss = consume(use.checkpoint(torch.exp, sample(4, 6)))
    use.discard_output_and_register_recompute(loss)
    with pytest.raises(CheckpointError, match="discarded before"):
        use.discard_output_and_register_recompute(loss)


def test_a_second_use_is_refused():
    use = CheckpointWithoutOutput()
    use.checkpoint(torch.exp, sample(4, 6))
    with pytest.raises(CheckpointError, match="one use"):
        use.checkpoint(torch.exp, sample(4, 6))


def test_a_hook_tensor_that_needs_no_grad_is_refused_before_damage():
    use = CheckpointWithoutOutput()
    out = use.checkpoint(torch.exp, sample(4, 6))
    with pytest.raises(CheckpointError, match="needs no grad"):
        use.discard_output_and_register_recompute(out.detach().sum())
    assert torch.equal(out, sample(4, 6).exp())
    loss = consume(out)
    use.discard_output_and_register_recompute(loss)
    loss.backward()


@pytest.mark.parametrize("hook", [lambda out: out, lambda out: out.view(-1)])
def test_the_output_as_hook_tensor_is_refused(hook):
    use = CheckpointWithoutOutput()
    out = use.checkpoint(torch.exp, sample(4, 6))
    with pytest.raises(CheckpointError, match="the output's own memory"):
        use.discard_output_and_register_recompute(hook(out))
    assert torch.equal(out, sample(4, 6).exp())


def test_an_output_that_the_consumer_changed_is_refused():
    use = CheckpointWithoutOutput()
    out = use.checkpoint(lambda x: x * 2, sample(4, 6))
    loss = out.add_(1).sin().sum()
    with pytest.raises(CheckpointError, match="changed in place by its consumer"):
        use.discard_output_and_register_recompute(loss)


OTHER_OUTPUTS = {
    "number": (lambda y: (y,), lambda y: (y, y + 1)),
    "shape": (lambda y: y, lambda y: y[:2] * 1),
    "dtype": (lambda y: y, lambda y: y.double()),
    "strides": (lambda y: y, lambda y: (y.t().contiguous()).t()),
    "offset": (lambda y: y, lambda y: torch.cat([y[:1], y])[1:]),
    "pattern": (lambda y: (y[:2], y[2:]), lambda y: (y[:2], torch.cat([y, y * 1])[2:4])),
}


@pytest.mark.parametrize("kind", OTHER_OUTPUTS)
def test_a_recompute_with_other_outputs_is_refused(kind):
    first, later = OTHER_OUTPUTS[kind]
    calls = []

    def fn(x):
        calls.append(1)
        return (first if len(calls) == 1 else later)(x.sin() * 2)

    def consumer(outs):
        outs = outs if isinstance(outs, tuple) else (outs,)
        return sum(out.exp().sin().sum() for out in outs)

    _, loss = run(fn, consumer, sample(4, 6))
    with pytest.raises(CheckpointError, match=r"the recompute of|share memory otherwise"):
        loss.backward()


def test_an_exception_in_the_recompute_arrives_unchanged_and_can_be_tried_again():
    calls = []

    def fn(x):
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("lost")
        return torch.tanh(x * 2)

    x = sample(4, 6)
    consume(torch.tanh(x * 2)).backward()
    expected, x.grad = x.grad, None
    _, loss = run(fn, consume, x)
    with pytest.raises(KeyError, match="lost"):
        loss.backward(retain_graph=True)
    loss.backward()
    assert torch.equal(expected, x.grad)


class _Clone(torch.autograd.Function):
    """A copy, whose node is made in inference mode too."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def test_an_output_without_a_version_is_left_where_it_is():
    with torch.inference_mode():
        start = sample(4, 6).detach().sin().requires_grad_()
        with torch.enable_grad():
            out = CheckpointWithoutOutput().checkpoint(_Clone.apply, start)
        assert out.is_inference()
        assert torch.equal(out, start)
