"""rng: the recompute draws the numbers of the forward, and the generators go on as in the plain run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, module_region, seeded_module
from ckpt_conformance.standard.compare import (
    CLEAR_ERRORS,
    expect_like_plain,
    expect_run_like_plain,
    observe,
    weighted_loss,
)
from ckpt_conformance.standard.evidence import expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, RECOMPUTING, SHOULD, requirement

_DOCS = "https://docs.pytorch.org/docs/stable/checkpoint.html"


@requirement(
    "rng/dropout-mask", MUST, since="2026.12",
    source=("pytorch/pytorch#14253", "allenai/OLMo-core#828", "allenai/OLMo#702"),
)  # fmt: skip
def dropout_mask(candidate: Candidate, lab: Lab) -> None:
    """Dropout inside a region has the same mask in the recompute as in the forward, by default.

    Otherwise gradients flow through units that the forward had switched off. Nothing raises, and the loss
    still goes down, only worse. An option that turns this off is fine as long as nobody gets it unasked.

    How: keep the generators' states before the forward, and put them in place for the recompute.
    """
    expect_like_plain(candidate, lab, dropout_region)


@requirement("rng/random-operations", MUST, since="2026.12", source="pytorch/pytorch#14253")
def random_operations(candidate: Candidate, lab: Lab) -> None:
    """Noise, sampling, shuffles and in-place draws are replayed as dropout is.

    A replay made for dropout alone (a mask that is kept, a patched function) leaves noisy routers, sampled
    softmax and stochastic depth with other numbers in the recompute.

    How: replay the generator's state; then every operation that draws from it is right.
    """
    expect_like_plain(candidate, lab, _random_operations_region)


@requirement(
    "rng/draws-that-choose-the-operations", MUST, since="2026.12", source="pytorch/pytorch#14253",
    styles=RECOMPUTING,
)  # fmt: skip
def draws_that_choose_the_operations(candidate: Candidate, lab: Lab) -> None:
    """A region whose draws decide what it computes takes the same way in the recompute.

    Stochastic depth and layer dropping draw a number and branch. With another number the recompute saves
    other tensors, which is an error at best and a gradient of the other branch at worst.

    How: put the generators in place before the region's first line, not around single operations.
    """
    for seed in range(6):
        _expect_branch_like_plain(candidate, lab, seed)


def _expect_branch_like_plain(candidate: Candidate, lab: Lab, seed: int) -> None:
    expect_run_like_plain(candidate, lambda who: observe(who, _branching_region(lab.device), seed=seed))


@requirement("rng/generator-after-forward", MUST, since="2026.12", source=_DOCS)
def generator_after_forward(candidate: Candidate, lab: Lab) -> None:
    """After the forward the global generator stands where the plain run leaves it, under no_grad too.

    An implementation that puts the generator back after the forward gives the next layer the numbers that the
    region has used already: their masks are equal, and runs with and without checkpointing diverge.

    How: read the generator's state before the forward; never write it there.
    """
    for grad in (True, False):
        expected, found = (_draw_after_forward(who, lab, grad) for who in (PLAIN, candidate))
        expect_same_tensor("the next draw after the forward", expected, found)


def _draw_after_forward(candidate: Candidate, lab: Lab, grad: bool) -> Tensor:
    torch.manual_seed(3)
    with torch.set_grad_enabled(grad):
        candidate.run(dropout_region(lab.device))
    return _next_draw(lab)


@requirement("rng/generator-after-backward", MUST, since="2026.12", source=_DOCS)
def generator_after_backward(candidate: Candidate, lab: Lab) -> None:
    """After the backward the global generator stands where it stood before it.

    The recompute rewinds the generator. If it is left there, the next iteration draws the last one's numbers
    over again: the data order and every mask repeat, and training overfits to them. It counts what the state
    was when the backward began: a user may have seeded anew in between.

    How: read the states at the start of the recompute, and put exactly these back at its end.
    """
    torch.manual_seed(3)
    loss = _loss_of(candidate, dropout_region(lab.device))
    torch.manual_seed(99)
    loss.backward()
    found = _next_draw(lab)
    torch.manual_seed(99)
    expect_same_tensor("the next draw after the backward", _next_draw(lab), found)


@requirement("rng/several-regions", MUST, since="2026.12", source="pytorch/pytorch#14253")
def several_regions(candidate: Candidate, lab: Lab) -> None:
    """Each use of a region replays its own numbers, whatever order the backwards come in.

    A state that is kept once per implementation, module or function, instead of once per use, is the last
    one's when the first one's backward comes: right in a test with one layer, wrong in every model.

    How: keep the states with the use, next to its inputs.
    """
    expected, found = (_two_uses(who, lab) for who in (PLAIN, candidate))
    for number, (want, got) in enumerate(zip(expected, found, strict=True)):
        expect_same_tensor(f"gradient of use {number}", want, got)


def _two_uses(candidate: Candidate, lab: Lab) -> list[Tensor | None]:
    torch.manual_seed(3)
    regions = [dropout_region(lab.device) for _ in range(2)]
    losses = [_loss_of(candidate, region) for region in regions]
    for loss in losses:
        loss.backward()
    return [region.args[0].grad for region in regions]


@requirement(
    "rng/inputs-in-containers", MAY, since="2026.12", source="pytorch/pytorch#121212", capability="containers"
)
def inputs_in_containers(candidate: Candidate, lab: Lab) -> None:
    """The numbers are replayed also where every tensor comes inside a container.

    Which generators to keep is often found by looking at the inputs. A search that looks at the top level
    only finds no device in a dict of tensors, and silently keeps nothing.

    How: look through nested containers, or keep the state of every device in use.
    """
    expect_like_plain(candidate, lab, _container_region)


@requirement(
    "rng/second-backward",
    MAY,
    since="2026.12",
    source="megatron-core 0.19.2, dropout under a forked generator with retain_graph",
    capability="retain-graph",
)
def second_backward(candidate: Candidate, lab: Lab) -> None:
    """A second backward through a retained graph draws the same mask as the first.

    A replay that changes the states it replays (a generator that draws on in the kept tensor, a dict that is
    swapped instead of copied) is right once and wrong ever after.

    How: copy the kept states into the generators; never hand them over.
    """
    region = dropout_region(lab.device)
    torch.manual_seed(3)
    loss = _loss_of(candidate, region)
    gradients = []
    for retain in (True, False):
        region.args[0].grad = None
        loss.backward(retain_graph=retain)
        gradients.append(region.args[0].grad)
    expect_same_tensor("the second backward's gradient of the input", *gradients)


@requirement("rng/after-the-region-raised", MUST, since="2026.12", source=_DOCS)
def after_the_region_raised(candidate: Candidate, lab: Lab) -> None:
    """Where the region raises in the recompute, the global generator stands where it stood before.

    Training code catches out-of-memory errors and goes on. A rewound generator then repeats numbers from that
    batch on, which nobody connects with an error that was dealt with.

    How: put the states back in a `finally`.
    """
    raising = False

    def raises_later(x: Tensor) -> Tensor:
        y = fn.dropout(x, 0.5).exp()
        if raising:
            raise MemoryError("simulated")
        return y.tanh()

    torch.manual_seed(3)
    loss = _loss_of(candidate, Region(raises_later, (lab.tensor(4, 8),)))
    raising = True
    torch.manual_seed(99)
    with suppress(Exception):
        loss.backward()
    found = _next_draw(lab)
    torch.manual_seed(99)
    expect_same_tensor("the next draw after the failed backward", _next_draw(lab), found)


@requirement(
    "rng/explicit-generator", SHOULD, since="2026.12",
    source=("pytorch/pytorch#14518", "pytorch/pytorch#194478", "pytorch/xla#4690"),
)  # fmt: skip
def explicit_generator(candidate: Candidate, lab: Lab) -> None:
    """A torch.Generator passed to the region is replayed, and stands afterwards as in the plain run.

    A model with a generator of its own (diffusion samplers, reproducible augmentation) gets other noise in
    the recompute, silently, since only the default generators are rewound. It stands in for the generator of
    a device that the implementation does not know, such as MPS or XLA. Many implementations document this as
    their limit, and none can see a generator that the region reaches by closure.

    How: keep and replay the state of every generator among the inputs, or refuse such an input.
    """
    _expect_replayed(candidate, lab, by_keyword=False)
    with suppress(*CLEAR_ERRORS):  # keywords may be refused: they are a capability of their own
        _expect_replayed(candidate, lab, by_keyword=True)


def _expect_replayed(candidate: Candidate, lab: Lab, *, by_keyword: bool) -> None:
    expected, found = (_with_generator(who, lab, by_keyword=by_keyword) for who in (PLAIN, candidate))
    for what, want, got in zip(("gradient of the input", "the next draw"), expected, found, strict=True):
        expect_same_tensor(what, want, got)


def _with_generator(candidate: Candidate, lab: Lab, *, by_keyword: bool) -> tuple[Tensor | None, Tensor]:
    generator = torch.Generator(lab.device).manual_seed(7)
    x = lab.tensor(4, 8)

    def noisy(x: Tensor, generator: torch.Generator) -> Tensor:
        return (x * torch.rand(x.shape, generator=generator, device=x.device)).tanh()

    region = Region(noisy, (x,), {"generator": generator}) if by_keyword else Region(noisy, (x, generator))
    _loss_of(candidate, region).backward()
    return x.grad, torch.rand(3, generator=generator, device=lab.device)


def _next_draw(lab: Lab) -> Tensor:
    return torch.rand(3, device=lab.device)


def _loss_of(candidate: Candidate, region: Region) -> Tensor:
    loss = weighted_loss(candidate.run(region))
    if loss is None:
        violated("no output requires grad", expected="an output that requires grad", found="none")
    return loss


def dropout_region(device: torch.device) -> Region:
    """Two linear layers with dropout between them."""
    module = seeded_module(
        lambda: nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.5), nn.GELU(), nn.Linear(16, 8)), device
    )
    return module_region(module, Lab(device).tensor(4, 8))


def _container_region(device: torch.device) -> Region:
    inner = dropout_region(device)
    return Region(lambda batch: inner.fn(batch["x"][0]), ({"x": [inner.args[0]]},), {}, inner.parameters)


def _branching_region(device: torch.device) -> Region:
    inner, other = dropout_region(device), _other_branch(device)

    def layer_drop(x: Tensor) -> Tensor:
        y: Tensor = inner.fn(x) if torch.rand(()) < 0.5 else other.fn(x)
        return y

    return Region(layer_drop, inner.args, {}, {**inner.parameters, "other": other.parameters["0.weight"]})


def _other_branch(device: torch.device) -> Region:
    module = seeded_module(lambda: nn.Sequential(nn.Linear(8, 8), nn.Softplus(), nn.Sigmoid()), device, 1)
    return module_region(module, Lab(device).tensor(4, 8))


_OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "randn": lambda x: x * torch.randn(x.shape, device=x.device),
    "rand_like": lambda x: x * torch.rand_like(x),
    "bernoulli_": lambda x: x * torch.empty_like(x).bernoulli_(0.5),
    "normal_": lambda x: x * torch.empty_like(x).normal_(),
    "multinomial": lambda x: x[torch.multinomial(torch.ones(4, device=x.device), 4, replacement=True)],
    "randperm": lambda x: x[torch.randperm(4, device=x.device)],
    "rrelu": lambda x: fn.rrelu(x, training=True),
    "alpha_dropout": lambda x: fn.alpha_dropout(x, 0.5, training=True),
    "feature_dropout": lambda x: fn.dropout1d(x, 0.5, training=True),
    "gumbel_softmax": lambda x: fn.gumbel_softmax(x),
}


def _random_operations_region(device: torch.device) -> Region:
    scales = {
        name: Lab(device).tensor(8, seed=seed).add(2).detach().requires_grad_()
        for seed, name in enumerate(_OPERATIONS)
    }

    def each(x: Tensor) -> Tensor:
        drawn = [
            (operation(x * scales[name]) * scales[name]).sin() for name, operation in _OPERATIONS.items()
        ]
        return torch.stack(drawn).sum(0)

    return Region(each, (Lab(device).tensor(4, 8),), {}, scales)
