"""A recompute whose tensors differ in form or number from the forward's is reported."""

from __future__ import annotations

from traceback import format_tb

import torch
from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.standard.compare import CLEAR_ERRORS
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.recompute.probe import Body, Runs, backward
from ckpt_conformance.standard.registry import MUST, RECOMPUTING, SHOULD, requirement


def _expect_reported(candidate: Candidate, lab: Lab, what: str, body: Body) -> None:
    """Run a region whose second run differs, and insist on an error."""
    runs = Runs(lab, body)
    try:
        backward(candidate.run(runs.region()))
    except CLEAR_ERRORS:
        return
    except Exception as accident:
        if runs.count < 2:
            raise
        violated(
            f"a recompute with {what} ends in an accident",
            expected="an error that says so",
            found=f"{type(accident).__name__}: {accident}",
            trace=tuple("".join(format_tb(accident.__traceback__)).splitlines()[-16:]),
        )
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
    backward(PLAIN.run(plain.region()))
    try:
        backward(candidate.run(found.region()))
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
