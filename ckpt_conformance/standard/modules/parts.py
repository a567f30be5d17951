"""modules: weights that are shared or frozen, buffers, hooks, state that is handed on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, keep_saved, module_region, sample, seeded_module
from ckpt_conformance.standard.compare import (
    CLEAR_ERRORS,
    expect_like_plain,
    expect_program_like_plain,
    expect_run_like_plain,
    gradients_of,
    observe,
)
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement


class Tied(nn.Module):
    """An embedding whose weight is the output layer's too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, index: Tensor) -> Tensor:
        """Embed, squash, and give logits."""
        result: Tensor = self.head(self.embedding(index).tanh())
        return result


def tied(device: torch.device) -> Region:
    """A region with a weight that it uses twice."""
    return module_region(seeded_module(Tied, device), torch.arange(6, device=device))


@requirement("modules/tied-weights", MUST, since="2026.12", source="deepspeedai/DeepSpeed#2103")
def tied_weights(candidate: Candidate, lab: Lab) -> None:
    """A weight that two layers of the region share gets the sum of both gradients.

    Language models tie embedding and head. Code that walks over modules instead of parameters handles such a
    weight twice.

    How: let the engine accumulate; it knows each weight once.
    """
    expect_like_plain(candidate, lab, tied)


def partly_frozen(device: torch.device) -> Region:
    """Three layers of which the middle one is frozen."""
    module = seeded_module(
        lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), device
    )
    for parameter in list(module.parameters())[2:4]:
        parameter.requires_grad_(False)
    return module_region(module, sample(4, 8, device=device))


@requirement("modules/frozen-parts", MUST, since="2026.12", source="pytorch/pytorch#33962")
def frozen_parts(candidate: Candidate, lab: Lab) -> None:
    """Frozen layers of a region get no gradient, and those around them theirs.

    Gradients have to pass through what is frozen. A recompute that unfreezes it spends memory on gradients
    that nobody wants.

    How: leave the parameters' `requires_grad` alone.
    """
    expect_like_plain(candidate, lab, partly_frozen)


class Adapted(nn.Module):
    """A frozen layer with a trained low-rank detour."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(8, 8).requires_grad_(False)
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The layer and its correction."""
        result: Tensor = self.base(x).tanh() + self.up(self.down(x).tanh())
        return result


def adapted(device: torch.device) -> Region:
    """A region in which only an adapter trains, on an input that needs no grad."""
    return module_region(seeded_module(Adapted, device), sample(4, 8, device=device, grad=False))


@requirement(
    "modules/adapter-alone-trains",
    MUST,
    since="2026.12",
    source=("huggingface/transformers#35826", "huggingface/transformers#42489"),
)
def adapter_alone_trains(candidate: Candidate, lab: Lab) -> None:
    """An adapter in an otherwise frozen model is trained, although the region's input needs no grad.

    Low-rank adaptation with a frozen embedding: no input of the first layer needs a gradient. The loss then
    has none at all, and users are told to make their inputs require grad.

    How: join the graph by what the region saves, not by whether an input needs a gradient.
    """
    expect_like_plain(candidate, lab, adapted)


class Normalizing(nn.Module):
    """A layer with a constant buffer."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by the layer and by the buffer."""
        result: Tensor = (self.layer(x) * self.scale).sin() * self.scale
        return result


def with_buffer(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A region that reads a buffer, and what became of the buffer."""
    module = seeded_module(Normalizing, device)
    x = sample(4, 8, device=device)
    candidate.run(module_region(module, x)).square().sum().backward()
    buffer = dict(module.named_buffers())["scale"]
    weight = dict(module.named_parameters())["layer.weight"]
    return gradients_of(x=x, weight=weight, buffer=buffer) | {"buffer": buffer}


@requirement("modules/buffers", MUST, since="2026.12", source="pytorch/pytorch#127959")
def buffers(candidate: Candidate, lab: Lab) -> None:
    """Buffers that the region reads are constants: no gradient, and the same values after the backward.

    Rotary tables and scales are buffers. Whatever an implementation does to saved tensors, freeing or
    overwriting them once they were used, must not happen to those that the module owns.

    How: only what the region itself made may be freed.
    """
    expect_program_like_plain(candidate, lab, with_buffer)


def doubling_hook(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A forward pre-hook that casts and scales, as mixed-precision wrappers do."""
    return (args[0].to(torch.float64) * 2.0, *args[1:])


def squaring_hook(_module: nn.Module, _args: tuple[Any, ...], output: Tensor) -> Tensor:
    """A forward hook that changes the output."""
    return output.square()


def hooked(device: torch.device) -> Region:
    """A module with a pre-hook that casts its input, and a hook on its output, as the region's function."""
    module = seeded_module(lambda: nn.Linear(8, 8), device).to(torch.float64)
    module.register_forward_pre_hook(doubling_hook)
    module.register_forward_hook(squaring_hook)
    return Region(module, (sample(4, 8, device=device),), parameters=dict(module.named_parameters()))


@requirement(
    "modules/forward-hooks",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#82203", "pytorch/pytorch#159359"),
)
def forward_hooks(candidate: Candidate, lab: Lab) -> None:
    """A module's forward hooks and pre-hooks run in both runs, and what they change holds in both.

    Sharding gathers weights in a pre-hook, mixed precision casts there. Calling `module.forward` in the
    recompute leaves them out: another dtype, or weights that are not there.

    How: call the module, not its `forward`.
    """
    expect_like_plain(candidate, lab, hooked)


@requirement("modules/backward-hooks-once", MUST, since="2026.12", source="pytorch/pytorch#131419")
def backward_hooks_once(candidate: Candidate, lab: Lab) -> None:
    """A full backward hook on a module of the region runs once a backward, with the plain run's gradient.

    Reduction and gradient statistics hang on these hooks. The forward runs twice, the backward must not.

    How: go back once, through either the original graph or the recomputed one.
    """
    expect_program_like_plain(candidate, lab, seen_by_backward_hook)


def seen_by_backward_hook(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """How often a full backward hook ran, and what it saw last."""
    module = seeded_module(lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)), device)
    module.get_submodule("0").register_full_backward_hook(
        lambda _module, _inputs, outputs: seen.extend(tree_leaves(outputs))
    )
    seen: list[Tensor] = []
    candidate.run(module_region(module, sample(4, 8, device=device))).square().sum().backward()
    return {"number of runs": torch.tensor(len(seen)), "gradient in the hook": seen[-1] if seen else None}


def unrolled(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """Four steps of a recurrent cell, each a region; after two a backward, and the state is detached."""
    cell = seeded_module(lambda: nn.GRUCell(8, 8), device)
    weight = dict(cell.named_parameters())["weight_hh"]
    inputs = [sample(4, 8, device=device, seed=number) for number in range(4)]
    state = sample(4, 8, device=device, grad=False, seed=9)
    seen: dict[str, Tensor | None] = {}
    for number, x in enumerate(inputs):
        state = candidate.run(module_region(cell, x, state))
        if number % 2:
            state.sum().backward()
            state = state.detach()
            seen |= gradients_of(**{f"weight_to_step_{number}": weight})
            weight.grad = None
    return seen | gradients_of(first=inputs[0], last=inputs[-1])


@requirement("modules/recurrent-state", MUST, since="2026.12", source="huggingface/transformers#43203")
def recurrent_state(candidate: Candidate, lab: Lab) -> None:
    """State handed from region to region, and detached in between, gets the plain run's gradients.

    Truncated backpropagation through time does this. A recompute that starts from the state of a later step
    gives gradients of another sequence.

    How: keep each use's own inputs.
    """
    expect_program_like_plain(candidate, lab, unrolled)


class Caching(nn.Module):
    """A layer that appends to a cache and attends to all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.cache: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """Append, then mix with everything cached."""
        self.cache.append(self.layer(x))
        result: Tensor = torch.softmax(x @ torch.cat(self.cache).t(), dim=-1) @ torch.cat(self.cache)
        return result


def caching(device: torch.device) -> Region:
    """A region whose second run finds its own entry in the cache."""
    return module_region(seeded_module(Caching, device), sample(4, 8, device=device))


@requirement(
    "modules/growing-cache",
    MUST,
    since="2026.12",
    source=("huggingface/transformers#28056", "shihao1895/MemoryVLA#18"),
)
def growing_cache(candidate: Candidate, lab: Lab) -> None:
    """A region that appends to a cache it reads has right gradients or an error; never silently others.

    With a key-value cache left on in training the recompute appends again and attends to twice the length.
    The output's shape is the same; only what the graph saves has grown.

    How: compare shapes and number of what is saved in both runs.
    """
    with suppress(*CLEAR_ERRORS):
        expect_run_like_plain(candidate, lambda who: observe(who, caching(lab.device), keep_saved))
