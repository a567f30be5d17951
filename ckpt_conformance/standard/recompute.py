"""recompute: when the region's function runs again, how often, and what a recompute that differs comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, pass_through
from ckpt_conformance.standard.compare import (
    CLEAR_ERRORS,
    expect_program_like_plain,
    gradients_of,
    weighted_loss,
)
from ckpt_conformance.standard.evidence import expect_equal, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import (
    FUNCTION_LIKE,
    MAY,
    MUST,
    RECOMPUTING,
    SHOULD,
    requirement,
)

Body = Callable[[Tensor, int], Any]
"""A region's function of its input and the number of its run, counted from 1."""


class Runs:
    """A region that counts how often its function has been entered."""

    def __init__(self, lab: Lab, body: Body) -> None:
        self.count = 0
        self.leaf = lab.tensor(4, 8)
        self._body = body

    def region(self) -> Region:
        """The region, on a leaf that needs grad."""
        return Region(self._run, (self.leaf,))

    def _run(self, x: Tensor) -> Any:
        self.count += 1
        return self._body(x, self.count)


def _chain(x: Tensor, _run: int) -> Tensor:
    return (x * 2).sin().exp()


def _backward(result: Any, **options: Any) -> None:
    loss = weighted_loss(result)
    assert loss is not None, "the regions of this family are differentiable"
    loss.backward(**options)


@requirement(
    "recompute/none-before-backward",
    MUST,
    since="2026.12",
    source="huggingface/diffusers#10107",
    styles=RECOMPUTING,
)
def none_before_backward(candidate: Candidate, lab: Lab) -> None:
    """The region's function runs exactly once in forward, whether or not grad is on.

    A second run in forward costs a third of a step and doubles every side effect, and nobody sees it.

    How: run the function once; under no_grad run it plainly.
    """
    for mode in (torch.enable_grad, torch.no_grad):
        runs = Runs(lab, _chain)
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
def once_per_backward(candidate: Candidate, lab: Lab) -> None:
    """One backward runs the region's function exactly once more, two runs in all.

    A third run is a forward for nothing; none at all means that everything was kept.

    How: recompute on the first demand of a backward and keep the values until that backward has taken them.
    """
    runs = Runs(lab, _chain)
    _backward(candidate.run(runs.region()))
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
    _backward(candidate.run(runs.region()))
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

    Early exits and auxiliary heads are computed and left out of many a loss. A queue of regions that is worked
    off in order recomputes them, or worse, hands their values to a neighbour.

    How: let the graph drive the recompute; keep no list of regions.
    """
    used, unused = Runs(lab, _chain), Runs(lab, _chain)
    kept = candidate.run(unused.region())
    _backward(candidate.run(used.region()))
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
def in_the_order_of_backward(candidate: Candidate, lab: Lab) -> None:
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
    _backward(candidate.run(Region(named("second"), (first,))))
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
    runs = Runs(lab, _chain)
    result = candidate.run(runs.region())
    _backward(result, retain_graph=True)
    _backward(result)
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
        _backward(first)
        _backward(second)
        return gradients_of(left=left, right=right)

    expect_program_like_plain(candidate, lab, program)


def _expect_reported(candidate: Candidate, lab: Lab, what: str, body: Body) -> None:
    """Run a region whose second run differs, and insist on an error."""
    runs = Runs(lab, body)
    try:
        _backward(candidate.run(runs.region()))
    except CLEAR_ERRORS:
        return
    if runs.count > 1:
        violated(
            f"a recompute with {what} went through silently",
            expected="an error that says so",
            found=f"no error; the gradient of the input is {_norm(runs.leaf)}",
        )


def _norm(leaf: Tensor) -> str:
    return "none" if leaf.grad is None else f"of norm {leaf.grad.norm().item():.6g}"


_MISMATCH = ("pytorch/pytorch#105031", "fla-org/native-sparse-attention#24")


@requirement(
    "recompute/other-shape-reported",
    MUST,
    since="2026.12",
    source=(*_MISMATCH, "shihao1895/MemoryVLA#18"),
    styles=RECOMPUTING,
)
def other_shape_reported(candidate: Candidate, lab: Lab) -> None:
    """A recompute that yields tensors of another shape is reported.

    A cache that the forward filled makes the recompute's sequence twice as long. Broadcasting lets some of
    that through, with gradients of something else.

    How: compare shapes with those of the first run, of the saved tensors or of the outputs.
    """
    _expect_reported(candidate, lab, "other shapes", lambda x, run: torch.cat([x * 2] * run).sin().exp())


@requirement("recompute/other-dtype-reported", MUST, since="2026.12", source=_MISMATCH, styles=RECOMPUTING)
def other_dtype_reported(candidate: Candidate, lab: Lab) -> None:
    """A recompute that yields tensors of another dtype is reported.

    It means that the recompute runs under another autocast or another precision policy. Autograd casts
    gradients silently, so that the loss curve alone would show it.

    How: compare dtypes with those of the first run, of the saved tensors or of the outputs.
    """
    dtypes = {1: torch.float32}
    _expect_reported(
        candidate, lab, "other dtypes", lambda x, run: (x * 2).to(dtypes.get(run, torch.float64)).sin().exp()
    )


@requirement(
    "recompute/fewer-tensors-reported",
    MUST,
    since="2026.12",
    source=(*_MISMATCH, "pytorch/pytorch#166926"),
    styles=RECOMPUTING,
)
def fewer_tensors_reported(candidate: Candidate, lab: Lab) -> None:
    """A recompute that saves fewer tensors, and so cannot fill all places, is reported or right.

    Control flow that depends on call counts or caches takes another branch. Filling the first places and
    leaving the rest, or shifting them, gives plausible numbers.

    How: count what the recompute saves; an implementation that differentiates the second run itself may find
    its gradients right where both branches compute the same.
    """

    def body(x: Tensor, run: int) -> Tensor:
        return x.sin().exp() if run == 1 else x.sin() * 1.0

    _expect_reported(candidate, lab, "fewer saved tensors", _output_differs(body))


def _output_differs(body: Body) -> Body:
    """A body whose second run gives one output less too, for those that look at outputs only."""

    def both(x: Tensor, run: int) -> tuple[Tensor, ...]:
        return (body(x, run), x.cos()) if run == 1 else (body(x, run),)

    return both


@requirement(
    "recompute/other-layout-reported",
    SHOULD,
    since="2026.12",
    source="pytorch/pytorch#105031",
    styles=RECOMPUTING,
)
def other_layout_reported(candidate: Candidate, lab: Lab) -> None:
    """A recompute that yields a tensor of other strides is right or reported.

    Where memory is put back under views that exist, other strides mean transposed values: silently wrong.
    Where whole tensors are handed back they are harmless.

    How: compare strides wherever memory and not tensors is restored.
    """

    def body(x: Tensor, run: int) -> Tensor:
        doubled = (x * 2).sin()
        return doubled if run == 1 else doubled.t().contiguous().t()

    plain, found = Runs(lab, body), Runs(lab, body)
    _backward(PLAIN.run(plain.region()))
    try:
        _backward(candidate.run(found.region()))
    except CLEAR_ERRORS:
        return
    if not torch.equal(_gradient(plain.leaf), _gradient(found.leaf)):
        violated(
            "a recompute with other strides gave wrong gradients silently",
            expected=f"a gradient {_norm(plain.leaf)}, or an error",
            found=f"one {_norm(found.leaf)}",
        )


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


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
            _backward(which.run(Runs(lab, body).region()))
        except Exception as error:  # noqa: BLE001 - which error arrives is another requirement's matter
            del error
        runs = Runs(lab, _chain)
        _backward(which.run(runs.region()))
        counted.append(runs.count)
        return gradients_of(input=runs.leaf)

    counted: list[int] = []
    expect_program_like_plain(candidate, lab, program)
    if candidate is not PLAIN:
        expect_equal("runs of the region after another one's recompute failed", 2, counted[-1])


class _ReadsTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (first,) = ctx.saved_tensors
        (second,) = ctx.saved_tensors
        return gradient * (first + second).mul(0.5).cos()


@requirement(
    "recompute/saved-tensors-read-twice",
    SHOULD,
    since="2026.12",
    source=("state-spaces/mamba#1021", "stanford-futuredata/stk#7"),
)
def saved_tensors_read_twice(candidate: Candidate, lab: Lab) -> None:
    """A custom function in the region may read its saved tensors twice in one backward.

    `ctx.saved_tensors` reads like an attribute, and kernels' authors read it more than once. Each access
    unpacks again; an implementation that gave the value away the first time fails in published layers.

    How: recompute again, or keep the value until the backward of that node is over.
    """

    def program(which: Candidate, _device: torch.device) -> dict[str, Tensor | None]:
        leaf = lab.tensor(4, 8)
        _backward(which.run(Region(lambda x: _ReadsTwice.apply(x * 2).exp(), (leaf,))))
        return gradients_of(input=leaf)

    expect_program_like_plain(candidate, lab, program)


@requirement("recompute/leaf-made-inside", MUST, since="2026.12", source="pytorch/pytorch#103726")
def leaf_made_inside(candidate: Candidate, lab: Lab) -> None:
    """A leaf that the region makes, and that a custom function saves, goes through like any tensor.

    Its gradient accumulator dies with the first run, and a saved variable that asks for it later meets an
    internal error.

    How: hand recomputed tensors back detached, without asking for their accumulators.
    """

    def program(which: Candidate, _device: torch.device) -> dict[str, Tensor | None]:
        leaf = lab.tensor(4, 8)

        def fn(x: Tensor) -> Tensor:
            made = torch.ones_like(x).mul(2).detach().requires_grad_()
            bent: Tensor = _ReadsOnce.apply(made)
            return bent * x.sin()

        _backward(which.run(Region(fn, (leaf,))))
        return gradients_of(input=leaf)

    expect_program_like_plain(candidate, lab, program)


class _ReadsOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return gradient * x.cos()


@requirement("recompute/identity-of-frozen-tensors", SHOULD, since="2026.12", source="pytorch/pytorch#127959")
def identity_of_frozen_tensors(candidate: Candidate, lab: Lab) -> None:
    """A tensor that needs no grad comes back from a custom function's save as the object it was.

    Wrapped and quantized weights carry attributes that the backward reads; a needless copy has lost them.

    How: detach recomputed tensors only where they have a graph.
    """
    frozen = lab.tensor(4, 8, grad=False)
    seen: list[bool] = []

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, by: Tensor) -> Tensor:
            ctx.save_for_backward(by)
            return x * by

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
            (by,) = ctx.saved_tensors
            seen.append(by is frozen)
            return gradient * by, None

    _backward(candidate.run(Region(lambda x: Scale.apply(x, frozen).sin(), (lab.tensor(4, 8),))))
    expect_equal("the saved frozen tensor is the object that was saved", [True], seen)
