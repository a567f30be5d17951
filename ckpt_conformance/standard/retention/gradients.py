"""Gradients of recomputed inputs: handed over, then let go, also where a region keeps its graph alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.instruments.watch import StorageWatch, leaves_of_graph
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement
from ckpt_conformance.standard.retention.probe import ELEMENTS, KeepsItsOutput, backward, quiet

Keep: TypeAlias = Callable[[Tensor], Tensor]
"""Keeps a tensor's graph alive beyond its use, and passes a tensor on."""


class Kept:
    """The tensors whose graphs were kept alive, reached without keeping them alive."""

    def __init__(self) -> None:
        self._seen: list[weakref.ref[Tensor]] = []

    def note(self, tensor: Tensor) -> Tensor:
        """Remember a tensor weakly."""
        self._seen.append(weakref.ref(tensor))
        return tensor

    def tensors(self) -> list[Tensor]:
        """Those that are still there."""
        return [tensor for reference in self._seen if (tensor := reference()) is not None]


def _expect_no_gradient_kept(candidate: Candidate, lab: Lab, region: Region, kept: Kept) -> None:
    inputs = StorageWatch()
    for tensor in region.args:
        inputs.add("input", tensor)
    known = {id(parameter) for parameter in region.parameters.values()}

    def detached() -> list[Tensor]:
        found = [*leaves_of_graph(kept.tensors()), *inputs.tensors()]
        leaves = {id(leaf): leaf for leaf in found if leaf.is_leaf and leaf.requires_grad}
        return [leaf for number, leaf in leaves.items() if number not in known]

    def gradients() -> list[Tensor]:
        return [leaf.grad for leaf in detached() if leaf.grad is not None]

    with quiet(candidate, lab):
        backward(candidate.run(region))
        size = sum(gradient.untyped_storage().nbytes() for gradient in gradients())
        leaves = len(detached())
        if size:
            violated(
                "detached inputs of the recompute keep their gradients after backward",
                expected="their .grad is None once it was handed over",
                found=f"{len(gradients())} of {leaves} detached inputs hold {size} bytes of gradients",
                trace=lab.trace(gradients),
            )


def _region(lab: Lab, keep: Keep) -> Region:
    leaf, gate, weight = lab.tensor(ELEMENTS), lab.tensor(ELEMENTS, seed=2), lab.tensor(ELEMENTS, seed=1)
    # two inputs: an implementation may think of the first alone
    return Region(
        lambda x, y: keep((x * weight).sin() * y),
        (leaf * 1, gate * 1),
        parameters={"leaf": leaf, "gate": gate, "weight": weight},
    )


@requirement(
    "retention/gradients-with-a-context-cycle", MUST, since="2026.12", source="NVIDIA/Megatron-LM#6339"
)
def gradients_with_a_context_cycle(candidate: Candidate, lab: Lab) -> None:
    """When a region's own autograd function and its output hold each other, no gradient is kept with them.

    Such cycles are common in custom functions, and they keep the recomputed graph until the collector runs.
    Through it they keep the detached inputs, and with them a gradient as large as each input, for every
    region of the model, from one iteration into the next.

    How: set `.grad` of the detached inputs to None as soon as the gradients were taken off them, or never let
    gradients arrive on them (keep the original graph and recompute its saved tensors alone).
    """
    kept = Kept()
    region = _region(lab, lambda bent: kept.note(KeepsItsOutput.apply(bent)))
    _expect_no_gradient_kept(candidate, lab, region, kept)


@requirement(
    "retention/gradients-with-a-stashed-tensor", MUST, since="2026.12", source="NVIDIA/Megatron-LM#6339"
)
def gradients_with_a_stashed_tensor(candidate: Candidate, lab: Lab) -> None:
    """When a module in the region stashes a tensor of its graph, no gradient is kept with that graph.

    Modules keep an auxiliary loss, router logits or a last hidden state for later. That is one tensor; with a
    careless checkpoint it is the recomputed graph with the gradients of all inputs.

    How: set `.grad` of the recompute's detached inputs to None once it was handed over.
    """
    stash: list[Tensor] = []
    kept = Kept()

    def keep(bent: Tensor) -> Tensor:
        stash.append(kept.note(bent))
        return bent.exp()

    _expect_no_gradient_kept(candidate, lab, _region(lab, keep), kept)


@requirement(
    "retention/gradients-with-nested-regions", MUST, since="2026.12", source="NVIDIA/Megatron-LM#6339"
)
def gradients_with_nested_regions(candidate: Candidate, lab: Lab) -> None:
    """With one region in another, both of which keep their graphs alive, neither keeps a gradient.

    A fix that clears the outer region's detached inputs alone leaves the inner ones', and a decoder layer
    checkpointed inside a checkpointed block is an everyday set-up.

    How: clear at every level, in the backward that handed the gradients over.
    """
    kept = Kept()

    def keep(bent: Tensor) -> Tensor:
        inner = Region(lambda h: kept.note(KeepsItsOutput.apply(h.exp())), (bent,))
        return kept.note(KeepsItsOutput.apply(candidate.run(inner)))

    _expect_no_gradient_kept(candidate, lab, _region(lab, keep), kept)
