"""What other threads have made is not taken for a region's own: each thread numbers its nodes for itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.reference import CheckpointWithoutOutput, checkpoint


class _Held:
    """Something that a region reaches in a way that no closure shows."""

    tensor: Tensor


class _Doubled(torch.autograd.Function):
    """2 x, by a number in its context."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.factor = 2
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.factor


def _later(x: Tensor) -> Tensor:
    """A tensor whose node has a number that a new thread has not reached yet."""
    for _ in range(100):
        x = x + 0
    return x


def _in_a_new_thread(work: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_a_tensor_of_another_thread_keeps_its_memory_when_the_region_returns_it():
    x, held = torch.ones(4, requires_grad=True), _Held()
    held.tensor = _later(x).exp()

    def step() -> Tensor:
        use = CheckpointWithoutOutput()
        theirs, own = use.checkpoint(lambda start: (held.tensor, start.sin()), x)
        result = theirs * own.exp()
        use.discard_output_and_register_recompute(result)
        return result

    result = _in_a_new_thread(step)

    assert torch.equal(held.tensor, torch.ones(4).exp())
    result.sum().backward()
    one = torch.ones(4)
    expected = (1 + one.cos()) * one.exp() * one.sin().exp()
    torch.testing.assert_close(x.grad, expected)


def test_a_backward_in_another_thread_leaves_the_contexts_of_the_graph_around_alone():
    x = torch.ones(4, requires_grad=True)
    outer = _Doubled.apply(_later(x))

    def region(start: Tensor) -> tuple[Tensor, Tensor]:
        return _Doubled.apply(start).exp(), outer

    inner, same = checkpoint(region, x.sin())
    _in_a_new_thread(lambda: inner.sum().backward())
    x.grad = None
    same.sum().backward()

    assert torch.equal(x.grad, torch.full((4,), 2.0))


def test_a_recompute_in_another_thread_leaves_the_context_of_a_hidden_tensor_alone():
    x, held = torch.ones(4, requires_grad=True), _Held()
    _later(x)  # a new thread has numbers below
    number = torch._C._autograd._get_sequence_nr()
    held.tensor = _Doubled.apply(x)
    result = checkpoint(lambda start: _Doubled.apply(start) * held.tensor, x.sin())

    def backward() -> None:
        while torch._C._autograd._get_sequence_nr() < number - 2:
            x.sin()
        result.sum().backward(retain_graph=True)

    _in_a_new_thread(backward)
    x.grad = None
    held.tensor.sum().backward()

    assert torch.equal(x.grad, torch.full((4,), 2.0))
