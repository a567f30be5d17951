"""training: loss curves equal the plain run's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, sample, seeded_module
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement

STEPS = 20
"""Optimizer steps of each curve."""


class Block(nn.Module):
    """A transformer block of width 8: attention with two heads and a feed-forward part, both with dropout.

    Each part ends in a linear layer that stays outside the region: the region is what comes before, and the
    linear layer is the consumer that saves its output.
    """

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.norm, self.qkv, self.project = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm_2, self.widen, self.narrow = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def attend(self, x: Tensor) -> Tensor:
        """Attention over x (batch, length, 8), before its projection."""
        query, key, value = (
            part.reshape(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        weights = torch.softmax(query @ key.transpose(-2, -1) / 2.0, dim=-1)
        weights = nn.functional.dropout(weights, self.dropout, self.training)
        attended: Tensor = (weights @ value).transpose(1, 2).reshape(x.shape)
        return attended

    def feed(self, x: Tensor) -> Tensor:
        """The wide half of the feed-forward part."""
        wide = nn.functional.gelu(self.widen(self.norm_2(x)))
        return nn.functional.dropout(wide, self.dropout, self.training)

    def run(self, candidate: Candidate, x: Tensor) -> Tensor:
        """The block with both of its parts as regions."""
        parameters = dict(self.named_parameters())
        x = x + candidate.run(Region(self.attend, (x,), parameters=parameters), self.project)
        result: Tensor = x + candidate.run(Region(self.feed, (x,), parameters=parameters), self.narrow)
        return result


def transformer(device: torch.device, dropout: float = 0.1) -> nn.ModuleList:
    """An input layer, two blocks and an output layer, with reproducible weights."""
    module = seeded_module(
        lambda: nn.ModuleList([nn.Linear(8, 8), Block(dropout), Block(dropout), nn.Linear(8, 4)]), device
    )
    assert isinstance(module, nn.ModuleList)
    return module


def loss_of(candidate: Candidate, model: nn.ModuleList, seed: int, device: torch.device) -> Tensor:
    """The loss on one batch of shape (2, 5, 8), whose values depend on the seed."""
    hidden = sample(2, 5, 8, device=device, grad=False, seed=seed)
    for block in model:
        hidden = block.run(candidate, hidden) if isinstance(block, Block) else block(hidden)
    target = torch.arange(10, device=device).remainder(4)
    return nn.functional.cross_entropy(hidden.float().reshape(10, 4), target)


Curve = Callable[[Candidate, torch.device], list[float]]
"""Trains, and gives the loss of each step."""


def adam(candidate: Candidate, device: torch.device) -> list[float]:
    """Adam on the transformer with dropout."""
    model = transformer(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(candidate, model, step % 4, device)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def accumulating(candidate: Candidate, device: torch.device) -> list[float]:
    """SGD with momentum, three micro-batches a step, gradients zeroed in place and clipped."""
    model = transformer(device, dropout=0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS // 2):
        optimizer.zero_grad(set_to_none=False)
        parts = [loss_of(candidate, model, 3 * step + part, device) / 3 for part in range(3)]
        for part in parts:
            part.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(sum(part.item() for part in parts))
    return losses


def validated(candidate: Candidate, device: torch.device) -> list[float]:
    """Adam with a validation under no_grad, in eval mode, between the steps."""
    model = transformer(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS // 2):
        optimizer.zero_grad()
        loss = loss_of(candidate, model.train(), step, device)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            losses += [loss.item(), loss_of(candidate, model.eval(), 99, device).item()]
    return losses


def mixed_precision(candidate: Candidate, device: torch.device) -> list[float]:
    """Adam under bfloat16 autocast, the backward outside of it, as torch's documentation has it."""
    model = transformer(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for step in range(STEPS // 2):
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            loss = loss_of(candidate, model, step % 4, device)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def expect_same_curve(candidate: Candidate, lab: Lab, curve: Curve) -> None:
    """Report the first step whose loss differs from the plain run's.

    Raises:
        Violation: A loss differs in any bit.
    """
    torch.manual_seed(1234)
    expected = curve(PLAIN, lab.device)
    torch.manual_seed(1234)
    found = curve(candidate, lab.device)
    for step, (want, got) in enumerate(zip(expected, found, strict=True)):
        if want != got:
            violated(
                f"the loss curve leaves the plain run's at step {step} of {len(expected)}",
                expected=f"{want!r}, and {expected[-1]!r} at the end",
                found=f"{got!r}, and {found[-1]!r} at the end",
            )


@requirement(
    "training/adam-loss-curve",
    MUST,
    since="2026.12",
    slow="the first optimizer of a process imports torch's compiler",
    source=("allenai/OLMo-core#828", "allenai/OLMo#702", "pytorch/pytorch#14253"),
)
def adam_loss_curve(candidate: Candidate, lab: Lab) -> None:
    """Twenty Adam steps of a small transformer with dropout give the plain run's losses, bit by bit.

    This is the promise that everything else serves. Adam divides by the gradient's size, so that a small
    constant error grows to a visible one within a few steps: a public run lost 0.3 of loss to a dropout mask
    that was not replayed.

    How: replay the random state in the recompute, put the present one back, and keep every gradient as it is.
    """
    expect_same_curve(candidate, lab, adam)


@requirement(
    "training/gradient-accumulation-curve",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#187437", "openai/guided-diffusion#144"),
)
def gradient_accumulation_curve(candidate: Candidate, lab: Lab) -> None:
    """SGD with momentum over micro-batches, all forwards before the backwards, gives the plain run's losses.

    Pipelines hold several micro-batches in flight, zero gradients in place and clip. Whatever is kept per
    module, or assigned to `.grad`, mixes the micro-batches.

    How: keep all state of a use in an object of its own; add to gradients, never assign them.
    """
    expect_same_curve(candidate, lab, accumulating)


@requirement("training/validation-between-steps", MUST, since="2026.12", source="huggingface/diffusers#10107")
def validation_between_steps(candidate: Candidate, lab: Lab) -> None:
    """Validation in eval mode under no_grad between the steps changes no loss, and gives the plain run's.

    A validation that draws random numbers, or leaves state behind that the next step's recompute finds,
    moves the curve from there on.

    How: where gradients are off, call the function and do nothing else.
    """
    expect_same_curve(candidate, lab, validated)


@requirement(
    "training/mixed-precision-curve",
    MUST,
    since="2026.12",
    source=("NVIDIA/TransformerEngine#791", "facebookresearch/fairscale#1199"),
)
def mixed_precision_curve(candidate: Candidate, lab: Lab) -> None:
    """Steps under bfloat16 autocast, with the backward outside of it, give the plain run's losses.

    Autocast has ended when the recompute runs. Without it the region is recomputed in float32: more memory
    than was saved, and other gradients.

    How: re-enter the forward's autocast, with its dtype and its cache flag, in the recompute.
    """
    expect_same_curve(candidate, lab, mixed_precision)
