"""grouped: several discarding regions in one graph, chained or restored under one hook tensor."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.consumers import joined, joined_saved
from ckpt_conformance.standard.compare import CLEAR_ERRORS, gradients_of, weighted_loss
from ckpt_conformance.standard.evidence import expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import DISCARDING, MUST, requirement

_PUSHED = "megatron-core 0.19.2, CheckpointWithoutOutput on the CPU"
"""Not a public report: seen when the published class was pushed."""


@requirement(
    "grouped/chain-of-regions", MUST, since="2026.12", styles=DISCARDING, source="NVIDIA/Megatron-LM#3649"
)
def chain_of_regions(candidate: Candidate, lab: Lab) -> None:
    """A chain of discarding regions, each hooked on its own consumer, gives the plain run's gradients.

    A layer has several such regions (norm, activation), each feeding the consumer that feeds the next one.
    What one restores must be there before the region before it is recomputed.

    How: one object per use, which holds its own inputs and outputs and nothing of its neighbours.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        for _ in range(3):
            use, out = uses.run(_norm_like, x)
            x = out.sin()
            uses.discard(use, x)
        return x

    _expect_program(candidate, lab, program)


@requirement(
    "grouped/one-hook-for-several", MUST, since="2026.12", styles=DISCARDING, source="NVIDIA/Megatron-LM#3649"
)
def one_hook_for_several(candidate: Candidate, lab: Lab) -> None:
    """Several regions that are restored under one hook tensor, registered in forward order, are all right.

    Two branches meet in one operation, and the result is the only tensor whose gradient comes early enough
    for both.

    How: restore on the hook tensor's gradient, each use by itself; hooks run in the order of registration.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        # through a node of its own, so that adding up inside the region first gives the same bits
        first, a = uses.run(_norm_like, x * 1)
        second, b = uses.run(torch.tanh, x * 2)
        met = a.sin() * b.cos()
        uses.discard(first, met)
        uses.discard(second, met)
        return met

    _expect_program(candidate, lab, program)


@requirement(
    "grouped/region-fed-by-a-region",
    MUST,
    since="2026.12",
    styles=DISCARDING,
    source="NVIDIA/Megatron-LM#3649",
)
def region_fed_by_a_region(candidate: Candidate, lab: Lab) -> None:
    """A region whose input is another's discarded output, both under one hook, reads it restored.

    The second one's recompute starts from what the first one's recompute brings back.

    How: keep the input tensor itself, whose storage is refilled; register in forward order.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        first, a = uses.run(_norm_like, x)
        second, b = uses.run(lambda a: (a * a).tanh(), a)
        end = b.sin()
        uses.discard(first, end)
        uses.discard(second, end)
        return end

    _expect_program(candidate, lab, program)


@requirement(
    "grouped/two-consumers-of-one-output",
    MUST,
    since="2026.12",
    styles=DISCARDING,
    source="NVIDIA/Megatron-LM#3649",
)
def two_consumers_of_one_output(candidate: Candidate, lab: Lab) -> None:
    """An output that two consumers saved is restored for both, under the tensor in which they meet.

    A residual branch and a projection read the same norm.

    How: share the storage, so that it does not matter how many tensors look at it.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        use, out = uses.run(_norm_like, x)
        met = out.sin() + out.t().exp().t()
        uses.discard(use, met)
        return met

    _expect_program(candidate, lab, program)


@requirement(
    "grouped/several-outputs", MUST, since="2026.12", styles=DISCARDING, source="NVIDIA/Megatron-LM#3649"
)
def several_outputs(candidate: Candidate, lab: Lab) -> None:
    """A region with several outputs has them all restored by one recompute.

    Query, key and value leave a region together. One restored and two forgotten is two thirds garbage.

    How: go through all the outputs of the recompute, in order, and refuse another number.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        use, out = uses.run(lambda x: (x.sin() * 2, [x.cos() * 2, x.exp()]), x)
        met = joined_saved(out)
        uses.discard(use, met)
        return met

    _expect_program(candidate, lab, program)


@requirement(
    "grouped/branch-without-gradient",
    MUST,
    since="2026.12",
    styles=DISCARDING,
    source="RobinBruegger/RevTorch#1",
)
def branch_without_gradient(candidate: Candidate, lab: Lab) -> None:
    """A region whose branch gets no gradient is never restored, and the others are right.

    An auxiliary head that the loss leaves out this time is ordinary. Waiting for its hook, or restoring
    everything in a row, goes wrong.

    How: tie each use to its own hook tensor.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        unused, a = uses.run(torch.tanh, x * 2)
        aside = a.sin()
        uses.discard(unused, aside)
        use, out = uses.run(_norm_like, x)
        end = out.sin()
        uses.discard(use, end)
        return end

    _expect_program(candidate, lab, program)


@requirement(
    "grouped/backward-never-run", MUST, since="2026.12", styles=DISCARDING, source="RobinBruegger/RevTorch#1"
)
def backward_never_run(candidate: Candidate, lab: Lab) -> None:
    """Regions of a graph that is dropped without a backward leave nothing behind.

    A skipped step (an overflow, an early stop) drops the loss. Objects that wait for their hook in a cycle
    with it keep the inputs for ever, as the collector does not see the graph's edges.

    How: hold no reference from the hook to what holds the hook tensor.
    """
    inputs: list[StorageWeakRef] = []

    def forward() -> None:
        uses, x = _Uses(candidate), lab.tensor(4, 8)
        for _ in range(3):
            x = x * 2
            inputs.append(StorageWeakRef(x.untyped_storage()))
            use, out = uses.run(_norm_like, x)
            x = out.sin()
            uses.discard(use, x)

    forward()
    gc.collect()
    alive = sum(not storage.expired() for storage in inputs)
    if alive:
        violated(
            "inputs outlive a graph that was dropped", expected="0 of 3 alive", found=f"{alive} of 3 alive"
        )


@requirement(
    "grouped/reverse-registration-is-no-garbage", MUST, since="2026.12", styles=DISCARDING, source=_PUSHED
)
def reverse_registration_is_no_garbage(candidate: Candidate, lab: Lab) -> None:
    """Chained regions registered under one hook in reverse order give an error or right gradients.

    The second region is then recomputed from an input that is not back yet. Nothing says so: the memory is
    empty or somebody else's.

    How: guard discarded storages, so that whoever reads one is told; or restore the input first.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        first, a = uses.run(_norm_like, x)
        second, b = uses.run(lambda a: (a * a).tanh(), a)
        end = b.sin()
        uses.discard(second, end)
        uses.discard(first, end)
        return end

    _expect_program_or_error(candidate, lab, program)


@requirement("grouped/late-hook-tensor-is-an-error", MUST, since="2026.12", styles=DISCARDING, source=_PUSHED)
def late_hook_tensor_is_an_error(candidate: Candidate, lab: Lab) -> None:
    """A hook tensor whose gradient comes after a consumer needed the output gives an error, not garbage.

    The wrong tensor is one line away: the layer's input instead of its result. The consumer's backward then
    reads freed memory, which is a crash if one is lucky.

    How: guard discarded storages, so that every kernel that touches one raises.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        before = x * 2
        use, out = uses.run(_norm_like, before)
        end = out.sin()
        uses.discard(use, before)
        return end

    _expect_program_or_error(candidate, lab, program)


@requirement("grouped/hook-tensor-needs-grad", MUST, since="2026.12", styles=DISCARDING, source=_PUSHED)
def hook_tensor_needs_grad(candidate: Candidate, lab: Lab) -> None:
    """A hook tensor that needs no grad is refused, or nothing is discarded.

    Its gradient never comes, so an output that is discarded for it is lost.

    How: look at `requires_grad` before anything is freed.
    """
    use = candidate.target()
    out = use.checkpoint(_norm_like, lab.tensor(4, 8))
    try:
        use.discard_output_and_register_recompute(out.detach().sin())
    except CLEAR_ERRORS:
        return
    if out.untyped_storage().nbytes() < out.nbytes or not _readable(out):
        violated("the output was discarded for ever", expected="an error or the output", found="no memory")


@requirement("grouped/discarded-output-is-guarded", MUST, since="2026.12", styles=DISCARDING, source=_PUSHED)
def discarded_output_is_guarded(candidate: Candidate, lab: Lab) -> None:
    """Reading a discarded output before it was restored raises an error.

    A logging line, a debugger or a second consumer reads it. On plain freed memory that ends the process,
    with no word about whose tensor it was.

    How: let the storage raise a message that names the region whenever its memory is asked for.
    """
    use = candidate.target()
    out = use.checkpoint(_norm_like, lab.tensor(4, 8))
    copy = out.detach().clone()
    end = out.sin()
    use.discard_output_and_register_recompute(end)
    if not _readable(out):
        return
    storage = out.untyped_storage()
    if storage.nbytes() < out.nbytes or storage.data_ptr() == 0:
        violated(
            "a discarded output can be read", expected="a clear error", found="no memory behind the tensor"
        )
    expect_same_tensor("an output that was not discarded", copy, out.detach())


@requirement("grouped/forgotten-discard", MUST, since="2026.12", styles=DISCARDING, source=_PUSHED)
def forgotten_discard(candidate: Candidate, lab: Lab) -> None:
    """A use that is never discarded gives right gradients or a clear error.

    Evaluation code, or a branch, leaves the call out. Then the output is still there and all would be well,
    had the implementation not waited for the hook.

    How: let the graph work on its own; the hook only brings back what was freed.
    """

    def program(uses: _Uses, x: Tensor) -> Any:
        _use, out = uses.run(_norm_like, x)
        return out.sin()

    _expect_program_or_error(candidate, lab, program)


def _norm_like(x: Tensor) -> Tensor:
    """Needs its input in backward, and gives an output that is no saved tensor of its own."""
    return (x * x + 1).log() * x.cos()


class _Uses:
    """Runs regions by one object each, or plainly where there is no candidate."""

    def __init__(self, candidate: Candidate | None) -> None:
        self.candidate = candidate

    def run(self, fn: Callable[..., Any], *args: Any) -> tuple[Any, Any]:
        """A new use and the region's output."""
        if self.candidate is None:
            return None, fn(*args)
        use = self.candidate.target()
        return use, use.checkpoint(fn, *args)

    def discard(self, use: Any, hook_tensor: Tensor) -> None:
        """Discard the use's outputs."""
        if use is not None:
            use.discard_output_and_register_recompute(hook_tensor)


_Program = Callable[[_Uses, Tensor], Any]


def _facts(uses: _Uses, lab: Lab, program: _Program) -> dict[str, Tensor | None]:
    leaf = lab.tensor(4, 8)
    result = program(uses, leaf)
    output = result.detach().clone()
    loss = weighted_loss(joined([result]))
    assert loss is not None
    loss.backward()
    return {"the result": output, **gradients_of(leaf=leaf)}


def _expect_program(candidate: Candidate, lab: Lab, program: _Program) -> None:
    expected, found = _facts(_Uses(None), lab, program), _facts(_Uses(candidate), lab, program)
    for name, tensor in expected.items():
        expect_same_tensor(name, tensor, found[name])


def _expect_program_or_error(candidate: Candidate, lab: Lab, program: _Program) -> None:
    try:
        _expect_program(candidate, lab, program)
    except CLEAR_ERRORS:
        return


def _readable(tensor: Tensor) -> bool:
    """Whether the storage gives its address without complaint; the memory itself is not touched."""
    try:
        tensor.untyped_storage().data_ptr()
    except CLEAR_ERRORS:
        return False
    return True
