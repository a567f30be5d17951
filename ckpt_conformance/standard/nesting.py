"""nesting: regions inside regions, after one another, and many of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as fn
from torch.utils.checkpoint import checkpoint

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, mlp, pass_through, sample, seeded_module
from ckpt_conformance.standard.compare import (
    backward_from,
    expect_run_of_tensors_like_plain,
    expect_same,
    gradients_of,
    observe,
)
from ckpt_conformance.standard.evidence import expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import FUNCTION_LIKE, MUST, RECOMPUTING, SHOULD, requirement
from ckpt_conformance.standard.rng import dropout_region

_TORCH = {
    way: Candidate.from_function(partial(checkpoint, use_reentrant=way == "reentrant"), name=f"torch-{way}")
    for way in ("reentrant", "nonreentrant")
}


@requirement("nesting/two-levels", MUST, since="2026.12", source="pytorch/pytorch#90105")
def two_levels(candidate: Candidate, lab: Lab) -> None:
    """A region inside a region gives the plain run's outputs and gradients.

    A stack of layers is checkpointed, and an expensive part of a layer once more. State that both share, such
    as one counter or one store, mixes the two.

    How: keep what belongs to one use in an object of its own; recompute as if no region were active.
    """
    _expect_nested(candidate, [candidate, candidate], lab)


@requirement("nesting/random-masks", MUST, since="2026.12", source="pytorch/pytorch#90105")
def random_masks(candidate: Candidate, lab: Lab) -> None:
    """Regions inside a region replay their own numbers too.

    The inner regions run three times: in the forward, in the recompute of the outer one, and in their own.
    The state to replay is the one that the outer recompute has reached, neither the outer's first one nor
    what the generator holds while the backward runs.

    How: read the state afresh whenever a region runs, also within another's recompute.
    """

    def outer(device: torch.device) -> Region:
        inner, own = dropout_region(device), dropout_region(device)

        def nested(x: Tensor) -> Tensor:
            once = fn.dropout(own.fn(x), 0.5)
            twice = candidate_under_test.run(Region(inner.fn, (once,), {}, inner.parameters))
            return fn.dropout(candidate_under_test.run(Region(inner.fn, (twice,), {}, inner.parameters)), 0.5)

        parameters = {f"inner {name}": value for name, value in inner.parameters.items()}
        return Region(nested, own.args, {}, {**own.parameters, **parameters})

    candidate_under_test = PLAIN
    expected = observe(PLAIN, outer(lab.device))
    candidate_under_test = candidate
    expect_same(expected, observe(candidate, outer(lab.device)))


@requirement("nesting/three-levels", MUST, since="2026.12", source="pytorch/pytorch#90105")
def three_levels(candidate: Candidate, lab: Lab) -> None:
    """Three regions inside one another give the plain run's outputs and gradients.

    What works for a pair can be a special case: a flag instead of a stack.

    How: keep each region's frame by itself; no step may know how deep it is.
    """
    _expect_nested(candidate, [candidate] * 3, lab)


@requirement("nesting/inside-torch-nonreentrant", MUST, since="2026.12", source="pytorch/pytorch#90105")
def inside_torch_nonreentrant(candidate: Candidate, lab: Lab) -> None:
    """The candidate works inside torch's non-reentrant checkpoint.

    Frameworks wrap whole layers in torch's checkpoint, and a layer brings an implementation of its own.
    Torch's stops the recompute early, by an exception, wherever it has all that it needs.

    How: let exceptions of the recompute pass; expect to be recomputed inside another's saved-tensor hooks.
    """
    _expect_nested(candidate, [_TORCH["nonreentrant"], candidate], lab)


@requirement("nesting/inside-torch-reentrant", MUST, since="2026.12", source="pytorch/pytorch#90105")
def inside_torch_reentrant(candidate: Candidate, lab: Lab) -> None:
    """The candidate works inside torch's reentrant checkpoint.

    Its forward runs under no_grad, where the candidate has nothing to do, and its recompute runs inside a
    backward, where it has.

    How: look at the grad mode at each call, and at no flag from outside.
    """
    _expect_nested(candidate, [_TORCH["reentrant"], candidate], lab)


@requirement("nesting/around-torch-nonreentrant", MUST, since="2026.12", source="pytorch/pytorch#90105")
def around_torch_nonreentrant(candidate: Candidate, lab: Lab) -> None:
    """The candidate works around torch's non-reentrant checkpoint.

    Library layers call torch's checkpoint themselves. Its saved tensors are its own business; those that it
    hands to the enclosing region are the candidate's.

    How: take part in the stack of saved-tensor hooks instead of replacing it.
    """
    _expect_nested(candidate, [candidate, _TORCH["nonreentrant"]], lab)


@requirement("nesting/around-torch-reentrant", MUST, since="2026.12", source="pytorch/pytorch#90105")
def around_torch_reentrant(candidate: Candidate, lab: Lab) -> None:
    """The candidate works around torch's reentrant checkpoint.

    The inner one calls backward inside the backward, which runs the recompute's graph from within.

    How: hold no lock across a backward, and let two backwards be active in one thread.
    """
    _expect_nested(candidate, [candidate, _TORCH["reentrant"]], lab)


@requirement(
    "nesting/twice-around-one-function", MUST, since="2026.12", source="meta-llama/llama-cookbook#740"
)
def twice_around_one_function(candidate: Candidate, lab: Lab) -> None:
    """The same function checkpointed twice over, by two layers of a framework, is merely slower.

    A trainer's flag and a model's flag are both on. Values must stay right; the cost is one more run.

    How: nothing special: nesting that works.
    """
    outer = Region(
        lambda x: candidate.run(Region(mlp(lab.device).fn, (x,))), (sample(4, 8, device=lab.device),)
    )
    twin = Region(lambda x: PLAIN.run(Region(mlp(lab.device).fn, (x,))), (sample(4, 8, device=lab.device),))
    expected = observe(PLAIN, twin)
    expect_same(expected, observe(candidate, outer))


@requirement(
    "nesting/recomputes-are-bounded", MUST, since="2026.12", styles=RECOMPUTING,
    source="meta-llama/llama-cookbook#740",
)  # fmt: skip
def recomputes_are_bounded(candidate: Candidate, lab: Lab) -> None:
    """At depth d a function runs at most d + 1 times for one forward and backward.

    The forward and one recompute per level are what nesting costs. An implementation that recomputes the
    outer region once per saved tensor of the inner one costs exponentially more.

    How: recompute a region once for a backward and keep the results until they are taken.
    """
    for depth in (1, 2, 3):
        runs: list[int] = []
        region = _nested([candidate] * depth, lab, runs)
        backward_from(region.plain())
        if len(runs) > depth + 1:
            violated(
                f"the innermost of {depth} nested regions ran too often",
                expected=f"at most {depth + 1} runs", found=f"{len(runs)} runs",
            )  # fmt: skip


@requirement("nesting/sequential-regions", MUST, since="2026.12", source="pytorch/pytorch#23822")
def sequential_regions(candidate: Candidate, lab: Lab) -> None:
    """A chain of regions, each fed by the one before, gives the plain run's outputs and gradients.

    This is the ordinary use: every layer a region. One backward recomputes them all, last one first.

    How: keep nothing of a use beyond its own backward.
    """
    _expect_program(candidate, lab, _chain)


@requirement("nesting/sequence-inside-a-region", MUST, since="2026.12", source="pytorch/pytorch#90105")
def sequence_inside_a_region(candidate: Candidate, lab: Lab) -> None:
    """Several regions after one another inside one region give the plain run's results.

    The recompute of the outer region runs the inner forwards again, and their recomputes follow while the
    outer backward is still going.

    How: give each use a frame of its own; the inner uses of the first run and of the second differ.
    """
    _expect_program(candidate, lab, lambda by, x: by.run(Region(lambda x: _chain(by, x), (x,))))


@requirement("nesting/one-module-in-two-regions", MUST, since="2026.12", source="pytorch/pytorch#187437")
def one_module_in_two_regions(candidate: Candidate, lab: Lab) -> None:
    """Two uses of one module and one function before a single backward do not mix.

    Shared layers and two forwards for one loss (contrastive pairs) call the same function twice. What is kept
    on the function or the module, instead of on the use, belongs to the last call only.

    How: keep inputs and state per call.
    """
    inner = mlp(lab.device)

    def program(by: Candidate, x: Tensor) -> Tensor:
        first = by.run(Region(inner.fn, (x,), parameters=inner.parameters))
        second = by.run(Region(inner.fn, (x.cos(),), parameters=inner.parameters))
        total: Tensor = first * 2 + second
        return total

    _expect_program(candidate, lab, program)


@requirement(
    "nesting/inner-inputs-are-freed", SHOULD, since="2026.12", styles=FUNCTION_LIKE & RECOMPUTING,
    source="pytorch/pytorch#178568",
)  # fmt: skip
def inner_inputs_are_freed(candidate: Candidate, lab: Lab) -> None:
    """Inside an outer region, the inner regions' inputs are freed too, however they are passed.

    The outer region will recompute them. An inner region that keeps a tensor of a dict, a list or a keyword
    as a plain reference keeps it through the forward: nesting then saves nothing.

    How: hand every tensor of the arguments to the saved-tensor hooks around, as an operation would.
    """
    passed: dict[str, Callable[[Tensor], Region]] = {
        "positional": lambda x: Region(Tensor.sin, (x,)),
        "dict": lambda x: Region(lambda d: d["x"].sin(), ({"x": x},)),
        "list": lambda x: Region(lambda values: values[0].sin(), ([x],)),
        "keyword": lambda x: Region(lambda *, x: x.sin(), kwargs={"x": x}),
    }
    for way, make in passed.items():
        _expect_freed(candidate, lab, way, make)


@requirement(
    "nesting/thousands-of-regions",
    MUST,
    since="2026.12",
    source="pytorch/pytorch#6959",
    slow="2000 regions, forward and backward",
)
def thousands_of_regions(candidate: Candidate, lab: Lab) -> None:
    """A graph of two thousand regions goes backward without a stack overflow.

    A recurrent network checkpoints every step. Engines that call each other, and graphs that are freed by
    recursion, end in a RecursionError or a crash.

    How: let the engine walk the graph; do not chain uses to one another.
    """
    leaf = lab.tensor(4)
    hidden: Tensor = leaf
    for _ in range(_THOUSANDS):
        hidden = candidate.run(Region(_step, (hidden,)), _pass_on)
    hidden.sum().backward()
    expect_same_tensor("gradient of leaf", _plain_steps(lab), leaf.grad)


_THOUSANDS = 2000


def _plain_steps(lab: Lab) -> Tensor | None:
    leaf = lab.tensor(4)
    hidden = leaf
    for _ in range(_THOUSANDS):
        hidden = _pass_on(_step(hidden))
    hidden.sum().backward()
    return leaf.grad


def _step(hidden: Tensor) -> Tensor:
    return hidden.sin()


def _pass_on(output: Tensor) -> Tensor:
    return output * 1.001


def _chain(by: Candidate, x: Tensor) -> Tensor:
    for seed in range(4):
        layer = seeded_module(lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh()), x.device, seed)
        x = by.run(Region(lambda x, layer=layer: layer(x), (x,)))
    return x


def _expect_program(candidate: Candidate, lab: Lab, program: Callable[[Candidate, Tensor], Tensor]) -> None:
    def run(by: Candidate) -> dict[str, Tensor | None]:
        leaf = lab.tensor(4, 8)
        result = program(by, leaf)
        backward_from(result)
        return {"the output": result.detach(), **gradients_of(leaf=leaf)}

    expect_run_of_tensors_like_plain(candidate, run)


def _nested(candidates: list[Candidate], lab: Lab, runs: list[int]) -> Region:
    """A region that runs by the candidates, outermost first; each level has work before and after it."""
    inner = mlp(lab.device)

    def innermost(x: Tensor) -> Tensor:
        runs.append(1)
        out: Tensor = inner.fn(x)
        return out.tanh()

    fn: Callable[[Tensor], Any] = innermost
    for by in reversed(candidates):
        fn = partial(_level, by, fn)
    return Region(fn, inner.args, parameters=inner.parameters)


def _level(by: Candidate, fn: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    result: Tensor = by.run(Region(fn, (x.cos(),))).sin()
    return result


def _expect_nested(_candidate: Candidate, levels: list[Candidate], lab: Lab) -> None:
    """The region itself holds the candidates, so it is run plainly on both sides."""
    expected = observe(PLAIN, _nested([PLAIN] * len(levels), lab, []), pass_through)
    expect_same(expected, observe(PLAIN, _nested(levels, lab, []), pass_through))


def _expect_freed(candidate: Candidate, lab: Lab, way: str, make: Callable[[Tensor], Region]) -> None:
    seen: list[StorageWeakRef] = []

    def outer(x: Tensor) -> Tensor:
        for _ in range(4):
            x = x * 2
            seen.append(StorageWeakRef(x.untyped_storage()))
            x = candidate.run(make(x), pass_through)
        return x

    result = candidate.run(Region(outer, (lab.tensor(4, 8),)), pass_through)
    alive = sum(not storage.expired() for storage in seen[:4])
    if alive > 1:
        violated(
            f"inputs of inner regions, passed as {way}, outlive the forward",
            expected="at most 1 of 4 alive", found=f"{alive} of 4 alive",
        )  # fmt: skip
    backward_from(result)
