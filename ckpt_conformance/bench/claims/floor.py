"""The floor between iterations, the detached inputs' `.grad` kept and cleared, in a GPT with 4 streams."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ckpt_conformance.reference.reentrant import Reentrant
from ckpt_conformance.regions import seeded_module

STREAMS = 4


class Keeping(Reentrant):
    """The reference's reentrant shape without its last step: the detached inputs keep their gradients."""

    def collect(self, inputs: list[Tensor]) -> list[Tensor | None]:
        """Take the gradients and leave them where they are."""
        return [tensor.grad for tensor in inputs]


@dataclass(frozen=True, slots=True)
class Floor:
    """Bytes between iterations.

    Attributes:
        layers: Layers of the model.
        sequence: Tokens.
        hidden: Width of one of the four streams.
        cycle: Whether the layers end in an operation whose context and output form a cycle.
        grad: `kept` or `cleared`.
        levels: Allocated bytes after each iteration.
    """

    layers: int
    sequence: int
    hidden: int
    cycle: bool
    grad: str
    levels: tuple[int, ...]

    @property
    def growth(self) -> int:
        """Bytes that the last iteration added."""
        return self.levels[-1] - self.levels[-2]


class KeepsItsContext(torch.autograd.Function):
    """The identity, whose context holds its output: with the garbage collector off, the graph stays alive."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Give x and hold it."""
        y = x.view_as(x)
        ctx.output = y
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ARG004 - the engine passes it
        """Give the gradient."""
        return gradient


class StreamLayer(nn.Module):
    """A transformer layer on four residual streams: (sequence, 1, 4 hidden) to the same."""

    def __init__(self, hidden: int, cycle: bool) -> None:
        super().__init__()
        self.hidden, self.cycle, self.heads = hidden, cycle, max(1, hidden // 128)
        self.read, self.write = nn.Parameter(torch.ones(STREAMS)), nn.Parameter(torch.ones(STREAMS))
        self.norm, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, streams: Tensor) -> Tensor:
        """Mix the streams, run attention and the MLP, add the result to each stream."""
        split = streams.view(*streams.shape[:2], STREAMS, self.hidden)
        x = torch.einsum("sbnh,n->sbh", split, self.read)
        y = x + self.attend(self.norm(x))
        y = y + self.down(functional.gelu(self.up(self.norm2(y))))
        mixed = split + y.unsqueeze(2) * self.write[:, None]
        joined = mixed.reshape(streams.shape)
        return KeepsItsContext.apply(joined) if self.cycle else joined  # type: ignore[no-any-return]

    def attend(self, x: Tensor) -> Tensor:
        """Causal self-attention: (sequence, 1, hidden) to the same."""
        sequence, batch, hidden = x.shape
        heads = self.qkv(x).view(sequence, batch, 3, self.heads, hidden // self.heads)
        query, key, value = heads.permute(2, 1, 3, 0, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.out(mixed.permute(2, 0, 1, 3).reshape(sequence, batch, hidden))
        return out


@contextmanager
def _collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


def measure_floor(
    device: torch.device,
    *,
    layers: int,
    sequence: int,
    hidden: int = 2048,
    cycle: bool = True,
    steps: int = 4,
) -> list[Floor]:
    """Train a few steps with `.grad` kept, then with it cleared, and note the level after each."""
    ways: Sequence[tuple[str, Reentrant]] = (("kept", Keeping()), ("cleared", Reentrant()))
    return [
        Floor(
            layers,
            sequence,
            hidden,
            cycle,
            name,
            _levels(way, device, layers, sequence, hidden, cycle, steps),
        )
        for name, way in ways
    ]


def _levels(
    checkpoint: Reentrant,
    device: torch.device,
    layers: int,
    sequence: int,
    hidden: int,
    cycle: bool,
    steps: int,
) -> tuple[int, ...]:
    stack = [
        seeded_module(lambda: StreamLayer(hidden, cycle), device, seed).to(torch.bfloat16)
        for seed in range(layers)
    ]
    levels = []
    with _collector_off():
        for _ in range(steps):
            _step(
                checkpoint,
                stack,
                torch.ones(sequence, 1, STREAMS * hidden, device=device, dtype=torch.bfloat16),
            )
            levels.append(_level(device))
    del stack
    return tuple(levels)


def _step(checkpoint: Reentrant, stack: Sequence[nn.Module], x: Tensor) -> None:
    x.requires_grad_()
    for layer in stack:
        x = checkpoint(layer, x)
    x.float().square().mean().backward()
    for layer in stack:
        layer.zero_grad(set_to_none=True)


def _level(device: torch.device) -> int:
    torch.cuda.synchronize(device)
    return torch.cuda.memory_allocated(device)
