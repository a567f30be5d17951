"""values: whatever the inputs are like."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, mlp, module_region, sample, seeded_module
from ckpt_conformance.standard.compare import (
    expect_like_plain,
    expect_program_like_plain,
    gradients_of,
    weighted_loss,
)
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement


@requirement(
    "values/gradients-of-inputs-and-parameters",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#23822", "ar4/deepwave#120"),
)
def gradients_of_inputs_and_parameters(candidate: Candidate, lab: Lab) -> None:
    """Outputs and the gradients of inputs and of parameters captured by closure equal the plain run's.

    Checkpointing is a memory decision: it must not change what is learnt. A recompute that is joined to the
    outer graph counts gradients twice; one that misses a parameter freezes it, and the loss still goes down.

    How: cut the recompute's graph off the outer one (detached inputs), and let the engine reach parameters
    through it, or keep the original graph and refill its saved tensors.
    """
    expect_like_plain(candidate, lab, mlp)


def upstream_of_a_region(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A plain layer, and a region on its output."""
    x = sample(4, 8, device=device)
    hidden = x.exp() * 0.5
    result = candidate.run(Region(lambda h: (h * h.sigmoid()).cos(), (hidden,)))
    result.square().sum().backward()
    return gradients_of(x=x) | {"result": result.detach()}


@requirement("values/gradients-reach-upstream", MUST, since="2026.12", source="pytorch/pytorch#14253")
def gradients_reach_upstream(candidate: Candidate, lab: Lab) -> None:
    """The gradient of a region's input reaches what produced that input.

    A region that takes its input off the graph trains the layers behind it and freezes those before it; with
    a residual stream around it the loss still goes down.

    How: give the input's gradient back to the graph that the input came from.
    """
    expect_program_like_plain(candidate, lab, upstream_of_a_region)


def one_tensor_for_two_arguments(device: torch.device) -> Region:
    """A product of two functions of one tensor, which is passed twice."""
    x = sample(4, 8, device=device)
    return Region(lambda a, b: a.sin() * b.cos(), (x, x))


@requirement("values/same-tensor-twice", MUST, since="2026.12", source="pytorch/pytorch#23822")
def same_tensor_twice(candidate: Candidate, lab: Lab) -> None:
    """A tensor passed as two arguments gets the sum of both gradients, once.

    Query and key of self-attention are one tensor. An implementation that keeps its inputs in a dictionary
    or a set hands the sum to each of the two places, and the layer below sees it twice.

    How: treat inputs by their place, never by their identity.
    """
    expect_like_plain(candidate, lab, one_tensor_for_two_arguments)


def input_also_by_closure(device: torch.device) -> Region:
    """A region that gets a tensor as its input and reaches the same one by closure."""
    x = sample(4, 8, device=device)
    return Region(lambda a: a.sin() * x.cos(), (x,))


@requirement("values/input-also-in-closure", MUST, since="2026.12", source="pytorch/pytorch#23822")
def input_also_in_closure(candidate: Candidate, lab: Lab) -> None:
    """A tensor that is an input and is reached by closure too gets both gradients.

    A residual connection inside the region often reads the tensor from the enclosing function. What comes
    through the closure must not be lost because the input was detached.

    How: leave the caller's tensors as they are in the recompute; only the arguments are cut off.
    """
    expect_like_plain(candidate, lab, input_also_by_closure)


def only_parameters_need_grad(device: torch.device) -> Region:
    """An MLP on an input that needs no gradient: the first layer of every model."""
    module = seeded_module(lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh()), device)
    return module_region(module, sample(4, 8, device=device, grad=False))


@requirement(
    "values/no-input-needs-grad",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#33962", "pytorch/pytorch#7617"),
)
def no_input_needs_grad(candidate: Candidate, lab: Lab) -> None:
    """Parameters get their gradients also where no input of the region needs one.

    The first layer of a model, and every layer of one whose embedding is frozen, has such inputs. An autograd
    function decides by its arguments whether its output needs a gradient; the parameters are not among them.

    How: run the region with its graph and hook its saved tensors, or pass a dummy tensor that needs grad.
    """
    expect_like_plain(candidate, lab, only_parameters_need_grad)


def one_input_is_frozen(device: torch.device) -> Region:
    """Two inputs of which the first needs no gradient."""
    frozen, trained = sample(4, 8, device=device, grad=False), sample(4, 8, device=device, seed=1)
    return Region(lambda a, b: (a * b).sin(), (frozen, trained))


@requirement("values/frozen-inputs", MUST, since="2026.12", source="pytorch/pytorch#7617")
def frozen_inputs(candidate: Candidate, lab: Lab) -> None:
    """An input that needs no gradient gets none and still needs none, next to one that does.

    Masks, positions and frozen features go in beside activations. Turning their `requires_grad` on to get
    the region into the graph costs memory and gives gradients to what the user froze.

    How: detach each input and give it its own `requires_grad`; never change the caller's tensor.
    """
    expect_like_plain(candidate, lab, one_input_is_frozen)


NON_CONTIGUOUS = ("transposed", "every second column", "expanded")
"""The layouts of the inputs below."""


def laid_out(layout: str, device: torch.device) -> Tensor:
    """A leaf of shape (8, 6) that is not contiguous."""
    if layout == "transposed":
        made = sample(6, 8, device=device, grad=False).t()
    elif layout == "every second column":
        made = sample(8, 12, device=device, grad=False)[:, ::2]
    else:
        made = sample(8, 1, device=device, grad=False).expand(8, 6)
    return made.requires_grad_()


def depends_on_the_layout(x: Tensor) -> Tensor:
    """Multiplies by the strides, so that another layout gives other values."""
    return (x * (0.1 * x.stride(0) + 0.01 * x.stride(1))).sin()


def region_of_layout(layout: str, device: torch.device) -> Region:
    """A region whose values depend on its input's strides."""
    return Region(depends_on_the_layout, (laid_out(layout, device),))


@requirement("values/non-contiguous-inputs", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def non_contiguous_inputs(candidate: Candidate, lab: Lab) -> None:
    """Inputs keep their strides in the recompute: transposed, strided and expanded ones.

    Kernels choose their path by the layout, and `view` works on one and raises on another. An input that was
    made contiguous for storing gives other bits in the recompute, or an error that the forward did not have.

    How: keep the tensor itself, not a packed copy; where it moves (offload), restore its strides.
    """
    for layout in NON_CONTIGUOUS:
        expect_like_plain(candidate, lab, partial(region_of_layout, layout))


def empty_batch(device: torch.device) -> Region:
    """An MLP on zero rows."""
    module = seeded_module(lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)), device)
    return module_region(module, sample(0, 8, device=device))


@requirement("values/empty-batch", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def empty_batch_gives_zero_gradients(candidate: Candidate, lab: Lab) -> None:
    """A region on zero rows gives the plain run's empty output, and zero gradients for the parameters.

    An expert that got no token sees such a batch. A parameter whose gradient is missing instead of zero
    leaves the all-reduce waiting for ever; a storage of zero bytes is not one that was discarded.

    How: treat an empty tensor like any other; zero bytes are no sign of anything.
    """
    expect_like_plain(candidate, lab, empty_batch)


def in_dtype(dtype: torch.dtype, device: torch.device) -> Region:
    """An MLP in one dtype; complex ones get an activation that complex numbers have."""
    activation = nn.Tanh if dtype.is_complex else nn.GELU
    module = seeded_module(lambda: nn.Sequential(nn.Linear(8, 16), activation(), nn.Linear(16, 8)), device)
    return module_region(module.to(dtype), sample(4, 8, device=device, dtype=dtype))


@requirement("values/double-precision", MUST, since="2026.12", source="pytorch/pytorch#105031")
def double_precision(candidate: Candidate, lab: Lab) -> None:
    """A float64 region has float64's gradients.

    Anything that went through float32 on its way, a buffer or a packed activation, differs from the ninth
    digit on: too little for a loss curve, enough for every gradient check.

    How: allocate by the tensor's dtype, never by the default one.
    """
    expect_like_plain(candidate, lab, partial(in_dtype, torch.float64))


@requirement("values/bfloat16", MUST, since="2026.12", source="pytorch/pytorch#159359")
def bfloat16(candidate: Candidate, lab: Lab) -> None:
    """A bfloat16 region has the plain run's bfloat16 gradients, bit by bit.

    This is the dtype that large models train in. A recompute in another precision looks like an improvement
    or like noise, and makes two runs of one model incomparable.

    How: run the recompute as the forward ran: same inputs, same dtype, same autocast.
    """
    expect_like_plain(candidate, lab, partial(in_dtype, torch.bfloat16))


@requirement("values/complex", MUST, since="2026.12", source="ar4/deepwave#120")
def complex_numbers(candidate: Candidate, lab: Lab) -> None:
    """A complex region has the plain run's complex gradients.

    Wave solvers and spectral layers checkpoint complex activations. A saved tensor may carry the conjugate
    bit, and a gradient that lost its imaginary part still has the right shape.

    How: store and hand over tensors as they are; detach keeps the conjugate bit.
    """
    expect_like_plain(candidate, lab, partial(in_dtype, torch.complex64))


def micro_batches(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """Three forwards, each with its backward, on one weight."""
    weight = sample(8, 8, device=device)

    def layer(x: Tensor) -> Tensor:
        return (x @ weight).tanh()

    inputs = [sample(4, 8, device=device, seed=number) for number in range(3)]
    for x in inputs:
        loss = weighted_loss(candidate.run(Region(layer, (x,), parameters={"weight": weight})))
        assert loss is not None
        loss.backward()
    return gradients_of(weight=weight, first=inputs[0], last=inputs[2])


@requirement("values/micro-batches", MUST, since="2026.12", source="openai/guided-diffusion#144")
def gradients_accumulate_over_micro_batches(candidate: Candidate, lab: Lab) -> None:
    """Gradients accumulate over several forward and backward passes as they do plainly.

    Gradient accumulation is how large batches fit. A candidate that assigns parameter gradients instead of
    adding them, or that remembers the first micro-batch's recompute, learns from a fraction of the batch.

    How: let the engine's own AccumulateGrad do the adding; keep nothing from one use to the next.
    """
    expect_program_like_plain(candidate, lab, micro_batches)
