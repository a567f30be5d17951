"""The reentrant shape: what it gives, what it lets go of, and its limits as refusals."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from ckpt_conformance.catalog.reference import reference, reference_discard, reference_reentrant
from ckpt_conformance.reference import CheckpointError
from ckpt_conformance.reference.reentrant import Reentrant

checkpoint = Reentrant()


def sample(*shape):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator).requires_grad_()


def test_gradients_of_inputs_and_of_captured_parameters_are_the_plain_ones():
    module, x = nn.Sequential(nn.Linear(6, 6), nn.Tanh()), sample(4, 6)
    module(x).sum().backward()
    expected = [leaf.grad for leaf in (x, *module.parameters())]
    for leaf in (x, *module.parameters()):
        leaf.grad = None
    checkpoint(module, x).sum().backward()
    found = [leaf.grad for leaf in (x, *module.parameters())]
    assert all(torch.equal(want, got) for want, got in zip(expected, found, strict=True))


def test_parameters_get_gradients_when_no_input_needs_one():
    module = nn.Linear(6, 6)
    checkpoint(module, torch.ones(4, 6)).sum().backward()
    assert torch.equal(module.bias.grad, torch.full((6,), 4.0))


def test_outputs_need_gradients_exactly_where_the_plain_ones_do():
    x = sample(4)
    made = checkpoint(lambda x: {"a": x.sin(), "b": (x.detach(), x.argmax(), None, "c")}, x)
    assert made["a"].requires_grad
    assert not made["b"][0].requires_grad
    assert not made["b"][1].requires_grad
    assert made["b"][2:] == (None, "c")


def test_keywords_and_containers_are_inputs_too():
    x, y = sample(4), sample(4)
    checkpoint(lambda d, *, y: d["x"][0].sin() * y, {"x": [x]}, y=y).sum().backward()
    assert torch.equal(x.grad, (x.cos() * y).detach())
    assert torch.equal(y.grad, x.sin().detach())


def test_the_detached_inputs_keep_no_gradient():
    kept = []

    def fn(x):
        kept.append(x)
        return x.sin()

    x = sample(4)
    checkpoint(lambda x: checkpoint(fn, x * 2), x).sum().backward()
    assert x.grad is not None
    assert len(kept) == 3
    assert all(tensor.grad is None for tensor in kept if tensor.is_leaf)


def test_nothing_is_held_after_backward():
    gc.collect()
    gc.disable()
    try:
        watched = []

        def fn(x):
            y = x.exp()
            watched.append(torch.multiprocessing.reductions.StorageWeakRef(y.untyped_storage()))
            return y.sin()

        out = checkpoint(fn, sample(4)).sum()
        out.backward()
        assert [reference.expired() for reference in watched] == [True, True]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda out, x: torch.autograd.grad(out, x), "backward\\(\\) alone"),
        (lambda out, x: out.backward(inputs=[x]), "backward\\(\\) alone"),
        (lambda out, x: out.backward(create_graph=True), "no second derivatives"),
    ],
)
def test_other_kinds_of_backward_are_refused(ask, said):
    x = sample(4)
    with pytest.raises(CheckpointError, match=said):
        ask(checkpoint(torch.sin, x).sum(), x)
    assert x.grad is None


def test_an_ordinary_backward_works_after_a_refused_one():
    x = sample(4)
    out = checkpoint(torch.sin, x).sum()
    with pytest.raises(CheckpointError):
        torch.autograd.grad(out, x, retain_graph=True)
    out.backward()
    assert torch.equal(x.grad, x.cos().detach())


def test_a_region_that_changes_its_input_is_refused():
    with pytest.raises(CheckpointError, match="changed an input in place"):
        checkpoint(lambda x: x.mul_(2).sin(), sample(4) * 1)


def test_a_tensor_left_behind_by_the_region_is_refused_in_backward():
    left = []

    def fn(x):
        left.append(x.exp())
        return left[-1].sin()

    checkpoint(fn, sample(4))
    with pytest.raises(CheckpointError, match="the inside of a reentrant region"):
        left[0].sum().backward()


def test_other_outputs_in_the_recompute_are_refused():
    calls = []

    def fn(x):
        calls.append(1)
        return x.sin() if len(calls) == 1 else x.sin()[:2]

    with pytest.raises(CheckpointError, match="the recompute of"):
        checkpoint(fn, sample(4)).sum().backward()


@pytest.mark.parametrize("make", [reference, reference_discard, reference_reentrant])
def test_the_catalog_says_what_is_in_use(make):
    candidate = make()
    assert candidate.name == make.__name__.replace("_", "-")
    assert candidate.remark
    assert "\n" not in candidate.remark
