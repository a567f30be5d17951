"""views: whoever holds a view of the output sees the recomputed data, and nobody else's memory goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.consumers import joined_saved, mixture_of_experts, save_output_and_view, saving_views
from ckpt_conformance.regions import Region, mlp, module_region, sample, seeded_module
from ckpt_conformance.standard.compare import (
    CLEAR_ERRORS,
    backward_from,
    expect_like_plain,
    expect_same,
    observe,
)
from ckpt_conformance.standard.evidence import expect_equal, expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement

_PUSHED = "megatron-core 0.19.2, CheckpointWithoutOutput on the CPU"
"""Not a public report: seen when the published class was pushed."""


@requirement("views/reshape-saved-by-consumer", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def reshape_saved_by_consumer(candidate: Candidate, lab: Lab) -> None:
    """A reshaped view of the output that the consumer saved sees the recomputed data.

    Linear layers flatten the batch dimensions before they save their input, so what waits for the backward
    is a view and not the output. An implementation that gives the output tensor a new storage leaves that
    view on the old one, and the weight gradient is made of freed or stale memory.

    How: put the recomputed memory under the output's own storage, which every view shares.
    """
    expect_like_plain(candidate, lab, mlp, saving_views(lambda output: output.reshape(2, 2, 8)))


@requirement("views/split-saved-by-consumer", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def split_saved_by_consumer(candidate: Candidate, lab: Lab) -> None:
    """Views that the consumer split off the output and saved see the recomputed data.

    Grouped layers split their input into one view per expert and save these alone. Each has its own storage
    offset; restoring the output tensor, or the first view only, leaves the others on old memory.

    How: restore the storage; offsets, shapes and strides of the views then stay right by themselves.
    """
    expect_like_plain(candidate, lab, mlp, saving_views(lambda output: torch.split(output, [1, 2, 1])))


@requirement("views/transpose-saved-by-consumer", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def transpose_saved_by_consumer(candidate: Candidate, lab: Lab) -> None:
    """A transposed view of the output that the consumer saved sees the recomputed data.

    Attention saves transposed heads. A restore that walks the view's elements in its own order, or writes the
    recomputed data in another layout, mixes rows with columns while every shape fits.

    How: restore the storage with the strides of the original output; recompute in the same layout.
    """
    expect_like_plain(candidate, lab, mlp, saving_views(Tensor.t))


@requirement("views/offset-view-saved-by-consumer", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def offset_view_saved_by_consumer(candidate: Candidate, lab: Lab) -> None:
    """Narrowed views of the output, with a storage offset of their own, see the recomputed data.

    A gate and a value projection are often two halves of one tensor. A view that starts in the middle of the
    storage reads another half's data if what is restored is a tensor of its own.

    How: restore the whole storage, from its first byte.
    """
    expect_like_plain(candidate, lab, mlp, saving_views(lambda output: [output[1:], output.narrow(1, 3, 4)]))


@requirement("views/view-of-view-saved-by-consumer", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def view_of_view_saved_by_consumer(candidate: Candidate, lab: Lab) -> None:
    """A view of a view, of which only the last was saved, sees the recomputed data.

    Between a region and a kernel lie a reshape, a transpose and a slice. An implementation that looks for the
    output's direct views to repair them one by one misses the ones behind.

    How: restore the storage; the depth of the views does not matter then.
    """
    consumer = saving_views(lambda output: output.view(2, 2, 8).transpose(0, 2)[1:5].squeeze())
    expect_like_plain(candidate, lab, mlp, consumer)


@requirement("views/strided-view-saved-by-consumer", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def strided_view_saved_by_consumer(candidate: Candidate, lab: Lab) -> None:
    """Diagonals and windows with strides that no slice has see the recomputed data.

    Such views overlap or skip elements, so they cannot be restored by copying into them.

    How: restore the storage; do not write through the views.
    """
    consumer = saving_views(
        lambda output: [output.diagonal(), output.as_strided((5, 4), (2, 1), 3), output.unfold(1, 4, 2)]
    )
    expect_like_plain(candidate, lab, mlp, consumer)


@requirement("views/expanded-view-saved-by-consumer", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def expanded_view_saved_by_consumer(candidate: Candidate, lab: Lab) -> None:
    """An expanded view of the output that the consumer saved sees the recomputed data.

    A broadcast operand is saved with stride 0: many elements, little memory. Restoring it element by element
    writes out of bounds or costs the memory that the expand saved.

    How: restore the storage with exactly the bytes that it had.
    """
    expect_like_plain(candidate, lab, mlp, saving_views(lambda output: output.unsqueeze(0).expand(3, 4, 8)))


@requirement("views/grouped-linear-consumer", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def grouped_linear_consumer(candidate: Candidate, lab: Lab) -> None:
    """A grouped linear that saves split views of the output gets the right gradient for every expert.

    A mixture of experts checkpoints its norm and activation, and TransformerEngine's GroupedLinear saves
    `reshape` and `torch.split` of what it is given, in an autograd.Function that shows the views to nobody.
    The input's gradient does not depend on them, the weights' does: the loss goes down, more slowly.

    How: restore the output's storage, not its tensor.
    """
    expected = observe(PLAIN, *mixture_of_experts(lab.device))
    expect_same(expected, observe(candidate, *mixture_of_experts(lab.device)))


@requirement("views/output-and-view-saved-together", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def output_and_view_saved_together(candidate: Candidate, lab: Lab) -> None:
    """A consumer that saved the output and a view of it sees the recomputed data in both.

    A residual stream reads the output as it is, and the layer beside it reads a view. Restoring one of the
    two is half right, and the wrong half depends on the order of the backward.

    How: restore the storage that both share, before either of them reads.
    """
    expect_like_plain(candidate, lab, mlp, save_output_and_view)


@requirement("views/offset-output", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def offset_output(candidate: Candidate, lab: Lab) -> None:
    """An output that starts in the middle of its storage is restored to the right place.

    A region that returns one chunk of a larger product gives an output with a storage offset. Restoring a
    storage of the output's own size, or the data to the storage's first byte, shifts every element.

    How: bring back the whole storage of the recomputed output; refuse one with too few bytes for the view.
    """
    expect_like_plain(candidate, lab, _ending_in(lambda hidden: hidden[1:3]))
    # an offset counts elements: where it is taken for bytes, or elements for four bytes each, this one shifts
    expect_like_plain(candidate, lab, _ending_in(lambda hidden: hidden.double()[1:3]))


@requirement("views/expanded-output", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def expanded_output(candidate: Candidate, lab: Lab) -> None:
    """An output that is expanded, with stride 0, is restored with its own few bytes.

    A gate that is one number per row is broadcast before it leaves the region. Its storage is smaller than
    its number of elements says.

    How: compare storages by their bytes, not by the output's elements.
    """
    region = _ending_in(lambda hidden: hidden.sum(1, keepdim=True).expand(4, 8))
    expect_like_plain(candidate, lab, region)


@requirement("views/noncontiguous-output", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def noncontiguous_output(candidate: Candidate, lab: Lab) -> None:
    """An output with other strides than a fresh tensor's is restored in that layout.

    Attention returns `(batch, heads, ...)` as a transposed view. Data that comes back contiguous has every
    element, each in a wrong place.

    How: share the recomputed storage as it is and check that the recomputed output has the same strides.
    """
    expect_like_plain(candidate, lab, _ending_in(Tensor.t))


@requirement("views/two-outputs-on-one-storage", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def two_outputs_on_one_storage(candidate: Candidate, lab: Lab) -> None:
    """Two outputs that are views of one storage are both restored.

    `chunk` at the end of a region gives query and key on one storage. Restoring each by itself discards what
    the other had just got back, or frees one storage twice.

    How: restore each storage once, by identity.
    """
    expect_like_plain(candidate, lab, _ending_in(lambda hidden: hidden.chunk(2)), joined_saved)


@requirement("views/output-saved-by-the-region", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def output_saved_by_the_region(candidate: Candidate, lab: Lab) -> None:
    """A region whose last operation saves its own output gets that output back as well.

    tanh, exp, softmax and sigmoid keep their result for their own backward. If the recomputed memory is moved
    away from the recomputed graph (a swap of data pointers), the consumer is right and the region's own
    gradient is computed from nothing.

    How: share the memory, so that the recomputed storage and the output's both own it.
    """
    endings: list[Callable[[Tensor], Tensor]] = [torch.tanh, torch.exp, torch.sigmoid, _softmax]
    for ending in endings:
        expect_like_plain(candidate, lab, _ending_in(ending))


@requirement("views/in-place-modified-view-output", MUST, since="2026.12", source="pytorch/pytorch#36383")
def in_place_modified_view_output(candidate: Candidate, lab: Lab) -> None:
    """A region that returns a view which it modified in place keeps its gradients.

    The view's grad_fn is rebuilt from its base after the change, so an implementation that marks the output
    it was given can lose its own node: the checkpoint's backward never runs and the gradients are missing.

    How: attach the region's node to what is returned, after everything in-place is done.
    """
    expect_like_plain(candidate, lab, _ending_in(_scaled_rows))


@requirement("views/output-is-its-input", MUST, since="2026.12", source=_PUSHED)
def output_is_its_input(candidate: Candidate, lab: Lab) -> None:
    """A region that returns its input leaves the caller's tensor intact, or is refused clearly.

    A stack with zero layers, or a skipped one, is the identity. Whoever then frees the "output" frees the
    caller's input, and the next reader crashes or trains on garbage.

    How: do not discard an output whose storage is an input's; or raise before anything is freed.
    """
    _expect_caller_intact(candidate, lab, lambda x: x)


@requirement("views/output-is-a-view-of-its-input", MUST, since="2026.12", source=_PUSHED)
def output_is_a_view_of_its_input(candidate: Candidate, lab: Lab) -> None:
    """A region that returns a view of its input leaves the caller's tensor intact, or is refused clearly.

    A region that only reshapes or slices has an output on the caller's storage; comparing tensors by identity
    does not see it.

    How: compare storages, not tensors, before anything is discarded.
    """
    _expect_caller_intact(candidate, lab, lambda x: x[1:].t())


@requirement("views/output-on-a-module-tensor", MUST, since="2026.12", source=_PUSHED)
def output_on_a_module_tensor(candidate: Candidate, lab: Lab) -> None:
    """A region that also returns a buffer, or a view of a parameter, leaves these intact.

    Position embeddings, attention masks and tied weights leave regions beside the hidden state. They are no
    inputs, so only a look at the output itself tells that the region did not compute them. Freeing one ruins
    the module for good.

    How: discard only what the region computed: no leaf and no view of a leaf.
    """
    weight = sample(6, 8, device=lab.device)
    mask = sample(4, 8, device=lab.device, grad=False, seed=1)
    before = weight.detach().clone(), mask.clone()
    inner = mlp(lab.device)
    region = Region(lambda x: (inner.fn(x), weight[:4], mask), inner.args, parameters=inner.parameters)
    with contextlib.suppress(*CLEAR_ERRORS):
        result = candidate.run(region)
        # a backward from here would never end: the region's node, its recompute, the buffer, the node again
        expect_equal("the region's buffer joined the graph of its own recompute", False, mask.requires_grad)
        backward_from(result)
    for name, tensor, was in zip(("a parameter", "a buffer"), (weight, mask), before, strict=True):
        _expect_intact(name, tensor, was)


def _ending_in(ending: Callable[[Tensor], object]) -> Callable[[torch.device], Region]:
    """A factory of regions that make a (4, 8) hidden tensor and return what `ending` makes of it."""

    def make(device: torch.device) -> Region:
        layer = seeded_module(lambda: nn.Linear(8, 8), device)
        inner = module_region(layer, sample(4, 8, device=device))
        return Region(lambda x: ending(inner.fn(x).cos()), inner.args, parameters=inner.parameters)

    return make


def _softmax(hidden: Tensor) -> Tensor:
    return torch.softmax(hidden, dim=-1)


def _scaled_rows(hidden: Tensor) -> Tensor:
    rows = hidden[1:]
    rows.mul_(1.5)
    return rows


def _expect_caller_intact(candidate: Candidate, lab: Lab, fn: Callable[[Tensor], Tensor]) -> None:
    def make(_device: torch.device) -> Region:
        return Region(fn, (caller,))

    caller = lab.tensor(4, 8)
    before = caller.detach().clone()
    expected = observe(PLAIN, make(lab.device))
    caller.grad = None
    with contextlib.suppress(*CLEAR_ERRORS):
        expect_same(expected, observe(candidate, make(lab.device)))
    _expect_intact("the caller's input", caller, before)


def _expect_intact(name: str, tensor: Tensor, before: Tensor) -> None:
    """The size is looked at first: reading freed memory would end the process instead of telling."""
    have, need = tensor.untyped_storage().nbytes(), before.nbytes
    if have < need:
        violated(f"the memory of {name} was freed", expected=f"{need} bytes", found=f"{have} bytes")
    expect_same_tensor(name, before, tensor.detach())
