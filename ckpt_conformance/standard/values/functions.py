"""values: regions with autograd functions of their own, and with tensors that come from nowhere else."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, sample
from ckpt_conformance.standard.compare import expect_like_plain
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, SHOULD, requirement


class SaveOwnTensors(torch.autograd.Function):
    """x * sigmoid(x), saving an intermediate that no graph knows, and its own output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Save the gate and the output."""
        gate = x.sigmoid()
        output = x * gate
        ctx.save_for_backward(gate, output)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """d(x s) = s + x s (1 - s), from what was saved."""
        gate, output = ctx.saved_tensors
        return gradients[0] * (gate + output * (1.0 - gate))


@requirement(
    "values/custom-function-saves-its-own",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#161186", "pytorch/pytorch#103726"),
)
def custom_function_saves_its_own(candidate: Candidate, lab: Lab) -> None:
    """An autograd function in the region may save intermediates of its own and its output.

    Fused kernels do: such tensors have no graph and are no inputs, so nothing but a second run can bring
    them back. An implementation that takes tensors without a graph for constants loses them.

    How: recompute everything that the region saved, whether it needs a gradient or not.
    """
    weight = sample(8, 8, device=lab.device, grad=False, seed=1)
    expect_like_plain(
        candidate,
        lab,
        lambda device: Region(
            lambda x: SaveOwnTensors.apply(x @ weight).cos(), (sample(4, 8, device=device),)
        ),
    )


class ReadTwice(torch.autograd.Function):
    """x * y, whose backward asks for its saved tensors once for each gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        """Save both factors."""
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Each gradient is the other factor."""
        return gradients[0] * ctx.saved_tensors[1], gradients[0] * ctx.saved_tensors[0]


@requirement(
    "values/saved-tensors-read-twice",
    SHOULD,
    since="2026.12",
    source=("state-spaces/mamba#1021", "stanford-futuredata/stk#7"),
)
def saved_tensors_read_twice(candidate: Candidate, lab: Lab) -> None:
    """The backward of an autograd function in the region may read `ctx.saved_tensors` more than once.

    Nothing in autograd says that it may not, and Triton kernels' wrappers do. With saved-tensor hooks each
    reading unpacks again; torch's own non-reentrant checkpoint raises here, by design and clearly.

    How: keep what was unpacked until the node has run, or recompute once more.
    """
    expect_like_plain(
        candidate,
        lab,
        lambda device: Region(
            lambda x: ReadTwice.apply(x.sin(), x.cos()).exp(), (sample(4, 8, device=device),)
        ),
    )


class SaveNewLeaf(torch.autograd.Function):
    """x times a table, saving a leaf that needs grad and that nobody else has."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Make the leaf and save it."""
        leaf = torch.linspace(0.5, 1.5, x.shape[-1], device=x.device).requires_grad_()
        ctx.save_for_backward(leaf)
        return x * leaf.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradient of x alone."""
        (leaf,) = ctx.saved_tensors
        return gradients[0] * leaf.detach()


def makes_a_leaf(x: Tensor) -> Tensor:
    """A function that saves a new leaf, and an ordinary multiplication with another."""
    gain = torch.linspace(0.1, 0.8, x.shape[-1], device=x.device).requires_grad_()
    result: Tensor = SaveNewLeaf.apply(x.sin()) * gain
    return result


@requirement("values/leaf-created-inside", MUST, since="2026.12", source="pytorch/pytorch#103726")
def leaf_created_inside(candidate: Candidate, lab: Lab) -> None:
    """A region may create leaf tensors that need grad, and save them.

    Such a leaf lives as long as the graph saves it; a candidate that drops the saved tensor drops the leaf
    with its gradient accumulator. Torch once raised an internal error here.

    How: recompute such a tensor like any other saved one; nobody outside can ask for its gradient.
    """
    expect_like_plain(candidate, lab, lambda device: Region(makes_a_leaf, (sample(4, 8, device=device),)))


class Note(torch.autograd.Function):
    """x times a table, noting which table its backward was given."""

    seen: Tensor | None = None

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor) -> Tensor:
        """Save both."""
        ctx.save_for_backward(x, table)
        return x * table

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The gradient of x; the table is a constant."""
        _, table = ctx.saved_tensors
        Note.seen = table
        return gradients[0] * table, None


@requirement(
    "values/constants-come-back-themselves", SHOULD, since="2026.12", source="pytorch/pytorch#127959"
)
def constants_come_back_themselves(candidate: Candidate, lab: Lab) -> None:
    """A saved tensor that needs no grad and lives outside the region comes back as the same Python object.

    Attributes hang on such objects: quantized weights carry their state, sharded ones their shape. A fresh
    detached tensor has the values and nothing else.

    How: detach only what needs grad.
    """
    table = lab.tensor(8, grad=False, seed=1)
    region = Region(lambda x: Note.apply(x.sin(), table), (lab.tensor(4, 8),))
    candidate.run(region).sum().backward()
    seen, Note.seen = Note.seen, None
    expect_equal("another object came back for a constant", True, seen is table)


class CarryMeta(torch.autograd.Function):
    """x times two, saving a tensor of another device beside it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Save x and a tensor that has a shape and no data."""
        ctx.save_for_backward(x, torch.empty(3, device="meta"))
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """Refuse to go on if the second tensor moved."""
        x, companion = ctx.saved_tensors
        expect_equal("a saved tensor came back on another device", "meta", companion.device.type)
        return gradients[0] * x.new_full((), 2.0)


@requirement(
    "values/saved-tensors-keep-their-device", MUST, since="2026.12", source="meta-pytorch/torchtune#2456"
)
def saved_tensors_keep_their_device(candidate: Candidate, lab: Lab) -> None:
    """A region may save tensors of several devices; each comes back on its own.

    Kernels keep shapes and offsets on the CPU beside activations on the accelerator. Code that brings all
    back to one device makes the kernel read an address that is not there.

    How: recompute, or remember each tensor's device when it is packed.
    """
    expect_like_plain(
        candidate,
        lab,
        lambda device: Region(lambda x: CarryMeta.apply(x.sin()).cos(), (sample(4, 8, device=device),)),
    )
