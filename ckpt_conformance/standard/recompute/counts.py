"""How often a region runs, when, and in which order."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, pass_through
from ckpt_conformance.standard.compare import expect_program_like_plain, gradients_of
from ckpt_conformance.standard.evidence import expect_equal, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.recompute.probe import Runs, backward, chain
from ckpt_conformance.standard.registry import FUNCTION_LIKE, MAY, MUST, RECOMPUTING, SHOULD, requirement


@requirement(
    "recompute/none-before-backward",
    MUST,
    since="2026.12",
    source="huggingface/diffusers#10107",
    styles=RECOMPUTING,
)
def none_beforebackward(candidate: Candidate, lab: Lab) -> None:
    """The region's function runs exactly once in forward, whether or not grad is on.

    A second run in forward costs a third of a step and doubles every side effect, and nobody sees it.

    How: run the function once; under no_grad run it plainly.
    """
    for mode in (torch.enable_grad, torch.no_grad):
        runs = Runs(lab, chain)
        with mode():
            result = candidate.run(runs.region())
        expect_equal(f"runs of the region in forward, {mode.__name__}", 1, runs.count)
        del result


@requirement(
    "recompute/once-per-backward",
    MUST,
    since="2026.12",
    source=("meta-llama/llama-cookbook#740", "pytorch/pytorch#96764"),
    styles=RECOMPUTING,
)
def once_perbackward(candidate: Candidate, lab: Lab) -> None:
    """One backward runs the region's function exactly once more, two runs in all.

    A third run is a forward for nothing; none at all means that everything was kept.

    How: recompute on the first demand of a backward and keep the values until that backward has taken them.
    """
    runs = Runs(lab, chain)
    backward(candidate.run(runs.region()))
    expect_equal("runs of the region in forward and backward", 2, runs.count)


@requirement(
    "recompute/once-for-many-saved-tensors",
    MUST,
    since="2026.12",
    source="pytorch/pytorch#90105",
    styles=RECOMPUTING,
)
def once_for_many_saved_tensors(candidate: Candidate, lab: Lab) -> None:
    """However many tensors a region saves, on however many branches, one backward recomputes it once.

    A recompute per saved tensor turns a linear cost into a quadratic one, and only large regions show it.

    How: one recompute fills every saved tensor of the region.
    """

    def body(x: Tensor, _run: int) -> tuple[Tensor, Tensor]:
        left, right = x, x * 3
        for _ in range(12):
            left, right = left.sin() * right, right.cos() + left
        return left, right

    runs = Runs(lab, body)
    backward(candidate.run(runs.region()))
    expect_equal("runs of the region in forward and backward", 2, runs.count)


@requirement(
    "recompute/not-for-an-unused-region",
    MUST,
    since="2026.12",
    source="RobinBruegger/RevTorch#1",
    styles=RECOMPUTING,
)
def not_for_an_unused_region(candidate: Candidate, lab: Lab) -> None:
    """A region that the loss does not use is not run again, and disturbs nothing.

    Early exits and auxiliary heads are computed and left out of many a loss. A queue of regions that is
    worked off in order recomputes them, or worse, hands their values to a neighbour.

    How: let the graph drive the recompute; keep no list of regions.
    """
    used, unused = Runs(lab, chain), Runs(lab, chain)
    kept = candidate.run(unused.region())
    backward(candidate.run(used.region()))
    expect_equal("runs of the region that the loss does not use", 1, unused.count)
    expect_equal("runs of the region that it uses", 2, used.count)
    del kept


@requirement(
    "recompute/in-the-order-of-backward",
    SHOULD,
    since="2026.12",
    source="pytorch/pytorch#164009",
    styles=RECOMPUTING,
)
def in_the_order_ofbackward(candidate: Candidate, lab: Lab) -> None:
    """Of two regions in sequence the later one is recomputed first, and the earlier one only after it.

    Recomputing both before the first one's backward holds two regions' activations at once.

    How: recompute when the backward reaches the region.
    """
    order: list[str] = []

    def named(name: str) -> Callable[[Tensor], Tensor]:
        def fn(x: Tensor) -> Tensor:
            order.append(name)
            return (x * 2).sin().exp()

        return fn

    first = candidate.run(Region(named("first"), (lab.tensor(4, 8),)))
    backward(candidate.run(Region(named("second"), (first,))))
    expect_equal("order of the runs", ["first", "second", "second", "first"], order)


@requirement(
    "recompute/second-backward-recomputes",
    MAY,
    since="2026.12",
    source=("openai/guided-diffusion#144", "pytorch/pytorch#82482"),
    capability="retain-graph",
    styles=RECOMPUTING,
)
def second_backward_recomputes(candidate: Candidate, lab: Lab) -> None:
    """A second backward over a retained graph runs the region at most once more, or is refused.

    Values kept for a second backward that may never come would undo the saving; more than one recompute is
    waste.

    How: tie recomputed values to one backward and recompute for the next.
    """
    runs = Runs(lab, chain)
    result = candidate.run(runs.region())
    backward(result, retain_graph=True)
    backward(result)
    if runs.count > 3:
        violated("two backwards run the region too often", expected="at most 3 runs", found=runs.count)


@requirement(
    "recompute/two-disjoint-backwards",
    MAY,
    since="2026.12",
    source="pytorch/pytorch#82482",
    capability="retain-graph",
    styles=FUNCTION_LIKE,
)
def two_disjoint_backwards(candidate: Candidate, lab: Lab) -> None:
    """Two backwards from separate outputs, over separate parts of the region, give the plain run's gradients.

    The plain graph allows it without retain_graph. Values of the first backward that are left over and used
    in the second, or used up by the first, show as wrong gradients or obscure errors.

    How: tie recomputed values to one backward, or refuse the second one clearly.
    """

    def program(which: Candidate, _device: torch.device) -> dict[str, Tensor | None]:
        left, right = lab.tensor(4, 8), lab.tensor(4, 8, seed=1)
        region = Region(lambda a, b: (a.sin().exp(), b.cos().exp()), (left, right))
        first, second = which.run(region, pass_through)
        backward(first)
        backward(second)
        return gradients_of(left=left, right=right)

    expect_program_like_plain(candidate, lab, program)


@requirement(
    "recompute/usable-after-a-failed-recompute",
    MUST,
    since="2026.12",
    source="huggingface/trl#6659",
    styles=RECOMPUTING,
)
def usable_after_a_failed_recompute(candidate: Candidate, lab: Lab) -> None:
    """After a recompute that raised, the next region works: right values, two runs.

    Training loops skip a step that ran out of memory. A flag, a counter or a half-filled cache left behind
    spoils the steps after it.

    How: put every piece of state back in `finally`.
    """

    def body(x: Tensor, run: int) -> Tensor:
        bent = (x * 2).sin()
        if run == 2:
            raise RuntimeError("planned: the recompute fails")
        return bent.exp()

    def program(which: Candidate, _device: torch.device) -> dict[str, Tensor | None]:
        try:
            backward(which.run(Runs(lab, body).region()))
        except Exception as error:  # noqa: BLE001 - which error arrives is another requirement's matter
            del error
        runs = Runs(lab, chain)
        backward(which.run(runs.region()))
        counted.append(runs.count)
        return gradients_of(input=runs.leaf)

    counted: list[int] = []
    expect_program_like_plain(candidate, lab, program)
    if candidate is not PLAIN:
        _, runs_of_the_candidate, *_ = counted
        expect_equal("runs of the region after another one's recompute failed", 2, runs_of_the_candidate)
