"""When things die on the unusual ways: no backward, half a backward, an exception."""

from __future__ import annotations

from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.instruments.watch import ObjectWatch, StorageWatch
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, RECOMPUTING, SHOULD, requirement
from ckpt_conformance.standard.retention.probe import (
    ELEMENTS,
    Planned,
    attempt,
    backward,
    expect_freed,
    expect_gone,
    quiet,
    raising_on,
    watched,
)


@requirement("retention/forward-only", MUST, since="2026.12", source="RobinBruegger/RevTorch#1")
def forward_only(candidate: Candidate, lab: Lab) -> None:
    """A region whose backward never runs is freed once its result is.

    Validation with grad on, a skipped step after an overflow, an output that no loss uses: many forwards have
    no backward. What only backward clears then stays for ever.

    How: hang everything on the graph, so that it dies with the result.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        region = watched(lab, watch)
        watch.add("input", region.args[0])
        result = candidate.run(region)
        del region, result
        expect_freed(lab, "a region without backward is kept", watch)


@requirement("retention/region-not-in-the-loss", MUST, since="2026.12", source="RobinBruegger/RevTorch#1")
def region_not_in_the_loss(candidate: Candidate, lab: Lab) -> None:
    """A region that the loss does not use is freed while another region's backward runs and ends.

    An auxiliary head that is off for some steps costs its activations at every one of them when an
    implementation queues regions and clears the queue in each region's own backward.

    How: keep no list of regions; each lives and dies with its own graph.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        unused = candidate.run(watched(lab, watch))
        used = candidate.run(watched(lab, watch))
        backward(used)
        del unused, used
        expect_freed(lab, "a region that the loss did not use is kept", watch)


@requirement("retention/partial-backward", MUST, since="2026.12", source="pytorch/pytorch#82482")
def partial_backward(candidate: Candidate, lab: Lab) -> None:
    """After a backward from one of two outputs, everything is freed once the caller has let go.

    Values recomputed for the other output are never asked for. Stored under a number and removed only when
    asked for, they outlive the graph that they were made for.

    How: tie a recomputed value to the saved variable that may ask for it, and clear at the backward's end.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        first, second = candidate.run(_two_outputs(lab, watch), _apart)
        backward(first)
        del first, second
        expect_freed(lab, "tensors of the region outlive a partial backward", watch)


@requirement(
    "retention/partial-backward-with-the-graph-alive",
    SHOULD,
    since="2026.12",
    source="pytorch/pytorch#82482",
    styles=RECOMPUTING,
)
def partial_backward_with_the_graph_alive(candidate: Candidate, lab: Lab) -> None:
    """After a backward from one of two outputs no recomputed value waits for the other's.

    The other backward recomputes anyway; until the graph dies the unused values are memory for nothing.

    How: clear what nobody asked for when the backward ends (a callback queued on the engine).
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        first, second = candidate.run(_two_outputs(lab, watch), _apart)
        backward(first)
        expect_freed(lab, "recomputed values that a partial backward did not use are kept", watch)
    del first, second


def _apart(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """A consumer that leaves the two outputs' graphs apart."""
    first, second = pair
    return first.sin(), second.sin()


def _two_outputs(lab: Lab, watch: StorageWatch) -> Region:
    weight = lab.tensor(ELEMENTS, seed=1)

    def region(x: Tensor) -> tuple[Tensor, Tensor]:
        left = watch.add("left", x * weight)
        right = watch.add("right", x + weight)
        return left.sin(), right.cos()

    return Region(region, (lab.tensor(ELEMENTS) * 1,), parameters={"weight": weight})


@requirement("retention/exception-in-forward", MUST, since="2026.12", source="huggingface/trl#6659")
def exception_in_forward(candidate: Candidate, lab: Lab) -> None:
    """A region that raises in its forward leaves nothing behind once the exception is handled.

    Out-of-memory recovery catches the exception and tries a smaller batch. A kept exception keeps its
    traceback, that its frames, and those every local tensor: the memory that the retry needs.

    How: store no exception; put the state back in `finally`.
    """
    with quiet(candidate, lab):
        watch, exceptions = StorageWatch(), ObjectWatch()
        region = watched(lab, watch, raising_on(1))
        watch.add("input", region.args[0])
        try:
            candidate.run(region)
        except Planned as planned:
            exceptions.add("exception", planned)
        del region
        expect_gone(lab, "the region's exception is kept", exceptions)
        expect_freed(lab, "tensors of a region that raised are kept", watch)


@requirement("retention/exception-in-recompute", MUST, since="2026.12", source="pytorch/pytorch#82482")
def exception_in_recompute(candidate: Candidate, lab: Lab) -> None:
    """A region that raises in its recompute leaves nothing behind once exception and graph are dropped.

    A step that is given up must give its memory back, or the next one starts with less.

    How: collect recomputed values in locals until the recompute has ended, and hand them over only then.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        result = candidate.run(watched(lab, watch, raising_on(2)))
        attempt(backward, result)
        del result
        expect_freed(lab, "tensors of a recompute that raised are kept", watch)


@requirement(
    "retention/failed-recompute-with-the-graph-alive", SHOULD, since="2026.12", source="pytorch/pytorch#82482"
)
def failed_recompute_with_the_graph_alive(candidate: Candidate, lab: Lab) -> None:
    """A recompute that raises leaves none of its values behind, although the caller still holds the result.

    The caller may hold the result while it handles the failure, for a retry or a message.

    How: store nothing of a recompute before it has ended.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        result = candidate.run(watched(lab, watch, raising_on(2)))
        attempt(backward, result)
        expect_freed(lab, "values of a recompute that raised are kept", watch)
    del result
