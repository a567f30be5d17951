"""When things die on the ordinary way: after forward, after backward, under no_grad."""

from __future__ import annotations

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.instruments.watch import NodeWatch, ObjectWatch, StorageWatch
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, RECOMPUTING, SHOULD, requirement
from ckpt_conformance.standard.retention.probe import (
    ELEMENTS,
    backward,
    expect_freed,
    expect_gone,
    quiet,
    watched,
)


@requirement(
    "retention/intermediates-after-forward",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#77284", "pytorch/pytorch#160773", "deepspeedai/DeepSpeed#3779"),
    styles=RECOMPUTING,
)
def intermediates_after_forward(candidate: Candidate, lab: Lab) -> None:
    """While a region's graph is alive before backward, none of its intermediates is.

    This is what checkpointing is for. An implementation that runs the region plainly, or keeps the full
    tensor beside the partition, gives right gradients and no memory.

    How: save the inputs alone; drop every tensor that an operation of the region saves.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        result = candidate.run(watched(lab, watch))
        expect_freed(lab, "intermediates of the region outlive its forward", watch)
    del result


@requirement(
    "retention/recomputed-values-after-backward",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#82482", "pytorch/pytorch#80151"),
)
def recomputed_values_after_backward(candidate: Candidate, lab: Lab) -> None:
    """Once backward is over, recomputed values are freed, although the caller still holds the loss.

    Training loops hold the loss until the next one replaces it. Values that wait for the graph's death are
    there during the optimizer's step and the next forward.

    How: give each recomputed value to the saved variable that asks for it and forget it; clear what nobody
    asked for when the backward ends.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        result = candidate.run(watched(lab, watch))
        backward(result)
        expect_freed(lab, "recomputed values outlive the backward", watch)
    del result


@requirement("retention/inputs-after-backward", SHOULD, since="2026.12", source="pytorch/pytorch#82482")
def inputs_after_backward(candidate: Candidate, lab: Lab) -> None:
    """Once backward is over, the region's input is freed, although the caller still holds the loss.

    The plain graph lets go of its saved tensors in backward. A frame or context that keeps the inputs for as
    long as the graph lives holds one input per region through the optimizer's step.

    How: drop the saved inputs in the same backward that used them, unless the graph is retained.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        region = watched(lab, StorageWatch())
        watch.add("input", region.args[0])
        result = candidate.run(region)
        del region
        backward(result)
        expect_freed(lab, "the region's input outlives the backward", watch)
    del result


@requirement(
    "retention/everything-after-backward",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#82776", "pytorch/pytorch#80151"),
)
def everything_after_backward(candidate: Candidate, lab: Lab) -> None:
    """After backward, once the caller has let go, input, intermediates and saved state are all freed.

    With the collector off this is plain reference counting: whatever survives is held by the implementation,
    or by a cycle that it made.

    How: no cycle among graph, hooks, frame and function; nothing in a global.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        region = watched(lab, watch)
        watch.add("input", region.args[0])
        backward(candidate.run(region))
        del region
        expect_freed(lab, "tensors of the region outlive its use", watch)


@requirement("retention/region-that-saves-its-output", MUST, since="2026.12", source="pytorch/pytorch#82776")
def region_that_saves_its_output(candidate: Candidate, lab: Lab) -> None:
    """A region that ends in an operation which saves its own output is freed after backward.

    The recomputed output, its node, the saved variable, the hook and the storage that the hook fills form a
    ring through C++ when the output is stored with its graph: no collector can ever free it.

    How: store recomputed tensors detached.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        backward(candidate.run(_ends_in_tanh(lab, watch)))
        expect_freed(lab, "the region's output outlives its use", watch)


def _ends_in_tanh(lab: Lab, watch: StorageWatch) -> Region:
    weight = lab.tensor(ELEMENTS, seed=1)
    return Region(
        lambda x: watch.add("output", watch.add("hidden", x * weight).tanh()),
        (lab.tensor(ELEMENTS) * 1,),
        parameters={"weight": weight},
    )


@requirement(
    "retention/graph-nodes", MUST, since="2026.12", source=("pytorch/pytorch#82776", "pytorch/pytorch#84711")
)
def graph_nodes(candidate: Candidate, lab: Lab) -> None:
    """The autograd nodes of the forward and of the recompute die once the caller has let go.

    A node holds its inputs' nodes and so the whole graph upstream: one that survives keeps much more than
    itself, and a tensor census does not see it.

    How: store recomputed tensors without their graph, and keep no node.
    """
    nodes, weight = NodeWatch(), lab.tensor(ELEMENTS, seed=1)

    def region(x: Tensor) -> Tensor:
        hidden = nodes.add("multiplication", x * weight)
        return nodes.add("sine", hidden.sin()).exp()

    with quiet(candidate, lab):
        backward(candidate.run(Region(region, (lab.tensor(ELEMENTS) * 1,), parameters={"weight": weight})))
        expect_gone(lab, "nodes of the region's graphs outlive their use", nodes)


@requirement(
    "retention/region-function",
    MUST,
    since="2026.12",
    source=("facebookresearch/fairscale#424", "pytorch/pytorch#154642"),
)
def region_function(candidate: Candidate, lab: Lab) -> None:
    """The region's function, or the wrapped module, dies once its user and the graph have let go.

    A module whose forward is replaced by a partial of its own bound forward, or a decorator that refers to
    itself, keeps the module with all its parameters until the collector happens to run.

    How: hold the function from the graph alone; do not store a bound method on its own object.
    """
    with quiet(candidate, lab):
        functions = ObjectWatch()
        region = watched(lab, StorageWatch())
        functions.add("function", region.fn)
        backward(candidate.run(region))
        del region
        expect_gone(lab, "the region's function outlives its use", functions)


@requirement("retention/under-no-grad", MUST, since="2026.12", source="huggingface/diffusers#10107")
def under_no_grad(candidate: Candidate, lab: Lab) -> None:
    """Under no_grad nothing but the result is kept: the input and the intermediates are freed at once.

    Validation runs whole models under no_grad, with no backward that would ever free a saved input.

    How: run the region plainly when grad is off.
    """
    with quiet(candidate, lab), torch.no_grad():
        watch = StorageWatch()
        region = watched(lab, watch)
        watch.add("input", region.args[0])
        result = candidate.run(region)
        del region
        expect_freed(lab, "tensors of a region that ran under no_grad are kept", watch)
    del result


@requirement(
    "retention/after-a-retained-graph",
    MAY,
    since="2026.12",
    source="pytorch/pytorch#82482",
    capability="retain-graph",
)
def after_a_retained_graph(candidate: Candidate, lab: Lab) -> None:
    """After two backwards, the first with retain_graph, everything is freed once the caller has let go.

    A retained graph asks for everything twice; what was kept for the second time has no third that frees it.

    How: tie recomputed values to one backward, and drop them at its end whether or not the graph is retained.
    """
    with quiet(candidate, lab):
        watch = StorageWatch()
        result = candidate.run(watched(lab, watch))
        backward(result, retain_graph=True)
        backward(result)
        del result
        expect_freed(lab, "tensors of the region outlive two backwards", watch)
