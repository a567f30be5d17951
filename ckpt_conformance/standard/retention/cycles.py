"""Regions that can reach their own output or intermediates: the graph must not close the ring for good."""

from __future__ import annotations

import gc
from collections.abc import Callable

from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.instruments.watch import StorageWatch
from ckpt_conformance.regions import Consumer, Region, keep_saved, pass_through
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import FUNCTION_LIKE, MUST, SHOULD, requirement
from ckpt_conformance.standard.retention.probe import ELEMENTS, backward, expect_freed, quiet


def _holding(lab: Lab, watch: StorageWatch, holder: dict[str, Tensor], stash: bool) -> Region:
    weight = lab.tensor(ELEMENTS, seed=1)

    def region(x: Tensor) -> Tensor:
        hidden = watch.add("hidden", x * weight).sin()
        if stash:
            holder["hidden"] = watch.add("stashed", hidden)
        return hidden.exp() * (1 if holder is not None else 0)

    return Region(region, (watch.add("input", lab.tensor(ELEMENTS) * 1),), parameters={"weight": weight})


def _run_and_drop(
    candidate: Candidate,
    lab: Lab,
    watch: StorageWatch,
    *,
    finish: Callable[[Tensor], None],
    stash: bool = False,
    consumer: Consumer = keep_saved,
) -> None:
    """One use of a region that holds an object on which the result, or an intermediate, is stored."""
    holder: dict[str, Tensor] = {}
    result = candidate.run(_holding(lab, watch, holder, stash), consumer)
    if not stash:
        holder["result"] = watch.add("result", result)
    finish(result)


def _nothing(result: Tensor) -> None:
    del result


@requirement("retention/closure-reaching-the-output", MUST, since="2026.12", source="pytorch/pytorch#84413")
def closure_reaching_the_output(candidate: Candidate, lab: Lab) -> None:
    """A region that holds the object on which its result is stored is freed after backward.

    Trainers keep outputs on an object that the model's code also reaches. The graph holds the function, the
    function the object, the object the output, and the output the graph: a ring through C++.

    How: drop the function and the inputs in the backward that used them.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        _run_and_drop(candidate, lab, watch, finish=backward)
        expect_freed(lab, "a region that reaches its own result outlives its use", watch)


@requirement(
    "retention/closure-reaching-the-output-without-backward",
    SHOULD,
    since="2026.12",
    source="pytorch/pytorch#84413",
    styles=FUNCTION_LIKE,
)
def closure_reaching_the_output_without_backward(candidate: Candidate, lab: Lab) -> None:
    """A region that holds the object on which its output is stored can be collected without a backward.

    The plain run has no ring here. A checkpoint's graph has to hold the function until backward; where that
    edge is one the collector can follow, the ring is garbage, elsewhere it stays for ever.

    How: hold the function from an object that the collector can see through (a Python node's context).
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        _run_and_drop(candidate, lab, watch, consumer=pass_through, finish=_nothing)
        gc.collect()
        expect_freed(lab, "a region that reaches its own result and had no backward is never freed", watch)


@requirement(
    "retention/module-that-caches-an-activation", MUST, since="2026.12", source="pytorch/pytorch#84413"
)
def module_that_caches_an_activation(candidate: Candidate, lab: Lab) -> None:
    """A region that caches one of its activations on an object is freed with that object after backward.

    Attention maps, hidden states and auxiliary losses are cached like this by many models. Once the model is
    dropped, nothing may hold it.

    How: hooks that run in the recompute must not reach the region: a cached tensor keeps its graph's hooks.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        _run_and_drop(candidate, lab, watch, stash=True, finish=backward)
        expect_freed(lab, "a region that caches an activation is kept after the object is dropped", watch)


@requirement(
    "retention/module-that-caches-an-activation-without-backward",
    SHOULD,
    since="2026.12",
    source="pytorch/pytorch#84413",
)
def module_that_caches_an_activation_without_backward(candidate: Candidate, lab: Lab) -> None:
    """A region that caches one of its activations can be freed with its object when no backward ran.

    The plain run frees it at once. With saved-tensor hooks the activation's graph holds the hook, that the
    region, and the region the activation: a ring through C++ that even the collector leaves.

    How: give the first run no graph of its own, or hold the region weakly from the hooks of its inner nodes.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        _run_and_drop(candidate, lab, watch, stash=True, finish=_nothing)
        gc.collect()
        expect_freed(lab, "a region that caches an activation and had no backward is never freed", watch)
