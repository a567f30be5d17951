"""What lives how long around a region of the function style."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ckpt_conformance.reference import checkpoint
from tests.unit.reference_samples import Exp, sample


@pytest.fixture
def without_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: {"x": t}, lambda t: [(t,)]])
def test_inner_regions_keep_no_activation_of_an_outer_one(wrap, without_collector):
    watched = []

    def inner(given):
        (tensor,) = torch.utils._pytree.tree_leaves(given)
        return tensor.sin().exp()

    def outer(x):
        for _ in range(4):
            x = x * 1.5
            watched.append(StorageWeakRef(x.untyped_storage()))
            x = checkpoint(inner, wrap(x))
        return x

    out = checkpoint(outer, sample(4, 6))
    assert [reference.expired() for reference in watched] == [True] * 4
    out.sum().backward()


def test_saved_tensors_leave_during_backward_as_they_are_used(without_collector):
    first, alive = [], []

    def fn(x):
        y = x.exp()
        first.append(y.untyped_storage().data_ptr())
        z = y.sin()
        watched.append(StorageWeakRef(z.untyped_storage()))
        return z.exp().sin()

    watched = []
    x = sample(4, 6) * 1
    x.register_hook(lambda _: alive.append(watched[-1].expired()))
    checkpoint(fn, x).sum().backward()
    assert alive == [True]


@pytest.mark.parametrize("way", ["whole", "part", "failed", "read"])
def test_no_recomputed_tensor_outlives_its_backward(way, without_collector):
    watched = []

    def fn(x, w):
        y = (x * w).exp()
        watched.append(StorageWeakRef(y.untyped_storage()))
        return y.sin().exp()

    x, w = sample(4, 6), sample(4, 6, seed=1)
    out = checkpoint(fn, x, w)
    loss = out.sum()
    if way == "whole":
        loss.backward(retain_graph=True)
    elif way == "part":
        loss.backward(inputs=[x], retain_graph=True)
    elif way == "failed":
        w.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            loss.backward(retain_graph=True)
    else:
        out.grad_fn._saved_result.sum()
    assert len(watched) == 2
    assert [reference.expired() for reference in watched] == [True, True]


def test_a_stashed_tensor_keeps_no_more_alive_than_in_a_plain_run(without_collector):
    watched = []

    def fn(x):
        y = x.exp()
        stash[:] = [y.sin()]
        watched.append(StorageWeakRef(y.untyped_storage()))
        return stash[0].exp()

    stash = []
    upstream = sample(4, 6) * 1
    watched.append(StorageWeakRef(upstream.untyped_storage()))
    loss = checkpoint(fn, upstream).sum()
    loss.backward()
    del loss, upstream
    assert stash
    assert [reference.expired() for reference in watched] == [True] * 3


def test_a_context_that_holds_its_output_leaves_one_output_behind_and_not_two(monkeypatch, without_collector):
    monkeypatch.setattr(Exp, "keep", True)
    watched = []

    def fn(x):
        y = Exp.apply(x)
        watched.append(StorageWeakRef(y.untyped_storage()))
        return y * 2

    checkpoint(fn, sample(4, 6)).sum().backward()
    assert [reference.expired() for reference in watched] == [False, True]


def test_a_leaf_input_of_a_kept_recompute_has_no_gradient():
    leaves = []

    def fn(x):
        leaves.append(x)
        x.sin().sum().backward(retain_graph=True)
        return x.exp()

    checkpoint(fn, sample(4)).sum().backward()
    assert leaves[1].grad is None


@pytest.mark.parametrize("when", ["forward", "recompute"])
def test_an_exception_arrives_unchanged_and_leaves_nothing_behind(when, without_collector):
    calls = []
    error = KeyError("mine")

    def fn(x):
        calls.append(1)
        y = torch.nn.functional.dropout(x * 2)
        if len(calls) == (1 if when == "forward" else 2):
            raise error
        return y.sin()

    region = weakref.ref(fn)
    x = sample(4)
    out = None
    if when == "recompute":
        out = checkpoint(fn, x).sum()
    before = torch.get_rng_state()
    with pytest.raises(KeyError) as caught:
        checkpoint(fn, x) if when == "forward" else out.backward()
    assert caught.value is error
    if when == "recompute":
        assert torch.equal(before, torch.get_rng_state())
    assert not torch.is_autocast_enabled("cpu")
    error.__traceback__ = None
    del caught, out, fn
    assert region() is None
