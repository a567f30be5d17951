"""Hooks fire as in the plain run: as often, with the same gradients, in the same order."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, module_region, pass_through, seeded_module
from ckpt_conformance.standard.compare import expect_program_like_plain, gradients_of
from ckpt_conformance.standard.engine.probe import Log, backward, expect_same_log, leaves, noting, region
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import FUNCTION_LIKE, MUST, SHOULD, requirement


@requirement(
    "engine/parameter-used-inside-and-outside",
    MUST,
    since="2026.12",
    source=("pytorch/pytorch#81296", "microsoft/FocalNet#4", "allenai/longformer#63"),
)
def parameter_used_inside_and_outside(candidate: Candidate, lab: Lab) -> None:
    """A hook on a parameter that is used inside and outside a region fires once, with the whole gradient.

    Data-parallel reducers hang on these hooks: a second call is "marked ready twice", or a gradient that was
    already sent without its second half.

    How: let the outer engine accumulate parameters' gradients, with no backward of its own inside.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        x, weight = leaves(bench)
        weight.register_hook(noting(log, "weight"))
        backward(which.run(region(x, weight)) @ weight)

    expect_same_log(candidate, lab, program)


@requirement(
    "engine/parameter-in-two-regions",
    MUST,
    since="2026.12",
    source=(
        "pytorch/pytorch#81296",
        "microsoft/FocalNet#4",
        "huggingface/trl#835",
        "deepspeedai/DeepSpeed#2103",
    ),
)
def parameter_in_two_regions(candidate: Candidate, lab: Lab) -> None:
    """A parameter that two regions use accumulates once: its post-accumulate-grad hook fires once.

    Weight sharing is common, and optimizers that step inside the hook, or reducers that send from it, work on
    half a gradient and then on the other half.

    How: let the outer graph's backward accumulate, once; run no backward of its own inside a region.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        x, weight = leaves(bench)
        weight.register_post_accumulate_grad_hook(lambda leaf: noting(log, "weight")(_gradient(leaf)))
        backward(which.run(region(which.run(region(x, weight)), weight)))

    expect_same_log(candidate, lab, program)


def _gradient(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None, "the hook runs after the accumulation"
    return leaf.grad


@requirement("engine/hooks-on-input-and-result", MUST, since="2026.12", source="pytorch/pytorch#131419")
def hooks_on_input_and_result(candidate: Candidate, lab: Lab) -> None:
    """Hooks on a region's input, on what feeds it and on its result fire once each, in the plain run's order.

    Gradient clipping, logging and pipeline schedules hang on them.

    How: one node or the original nodes in the outer graph, and gradients handed over through it.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        x, weight = leaves(bench)
        before = x * 2
        result = which.run(region(before, weight))
        for name, tensor in {"leaf": x, "input": before, "result": result}.items():
            tensor.register_hook(noting(log, name))
        backward(result)

    expect_same_log(candidate, lab, program)


@requirement("engine/hook-inside-the-region", MUST, since="2026.12", source="pytorch/pytorch#131419")
def hook_inside_the_region(candidate: Candidate, lab: Lab) -> None:
    """A hook that the region registers on an intermediate fires once in a backward, with its gradient.

    The region runs twice and registers twice; the hook must belong to one graph that is gone back through,
    not to both and not to neither.

    How: go back through exactly one of the two graphs.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        x, weight = leaves(bench)

        def fn(given: Tensor) -> Tensor:
            product = given @ weight
            if product.requires_grad:
                product.register_hook(noting(log, "intermediate"))
            return product.tanh() * 2

        backward(which.run(Region(fn, (x,), parameters={"weight": weight})))

    expect_same_log(candidate, lab, program)


@requirement("engine/hook-that-changes-a-gradient", MUST, since="2026.12", source="pytorch/pytorch#131419")
def hook_that_changes_a_gradient(candidate: Candidate, lab: Lab) -> None:
    """Hooks that return another gradient, inside the region and on its input, change it once.

    Gradient scaling and reversal are written like this; twice applied, or not at all, they train another
    model.

    How: go back through exactly one of the two graphs, and hand its gradients on as they are.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)

        def fn(given: Tensor) -> Tensor:
            product = given @ weight
            if product.requires_grad:
                product.register_hook(lambda gradient: gradient * 3)
            return product.tanh() * 2

        before = x * 1
        before.register_hook(lambda gradient: gradient * 5)
        backward(which.run(Region(fn, (before,), parameters={"weight": weight})))
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)


@requirement("engine/module-backward-hooks", MUST, since="2026.12", source="pytorch/pytorch#131419")
def module_backward_hooks(candidate: Candidate, lab: Lab) -> None:
    """A full backward hook of a module inside the region fires once, and its pre-hook too.

    Sharded and pipelined modules gather and release parameters in these hooks.

    How: go back through exactly one of the two graphs; forward hooks may run in the recompute as well.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        module = seeded_module(lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh()), bench.device)
        linear = next(module.children())
        linear.register_full_backward_pre_hook(lambda _m, _g: log.append("pre"))
        linear.register_full_backward_hook(lambda _m, _i, _o: log.append("post"))
        backward(which.run(module_region(module, bench.tensor(4, 8))))

    expect_same_log(candidate, lab, program)


@requirement("engine/multi-grad-hook", MUST, since="2026.12", source="pytorch/pytorch#81296")
def multi_grad_hook(candidate: Candidate, lab: Lab) -> None:
    """A multi-grad hook over a region's input and its parameter fires once, with both gradients.

    Sharded data parallel reshards when all of a group's gradients are there. A backward inside the backward
    is another run of the engine to such a hook, which then waits for ever or fires on half.

    How: let one backward deliver all gradients.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        x, weight = leaves(bench)

        def hook(gradients: Any) -> None:
            log.append(", ".join("none" if g is None else f"{g.norm().item():.6g}" for g in gradients))

        register_multi_grad_hook((x, weight), hook)
        backward(which.run(region(x, weight)))

    expect_same_log(candidate, lab, program)


@requirement("engine/order-of-hooks", SHOULD, since="2026.12", source="pytorch/pytorch#81296")
def order_of_hooks(candidate: Candidate, lab: Lab) -> None:
    """Hooks on the result, on parameters of two regions and on the input fire in the plain run's order.

    Bucketed reducers rely on gradients arriving from the last layer to the first.

    How: keep the original graph, or hand parameters' gradients over where the plain graph would.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        x, first = leaves(bench)
        second = bench.tensor(8, 8, seed=2)
        result = which.run(region(which.run(region(x, first)), second))
        for name, tensor in {"input": x, "first": first, "second": second, "result": result}.items():
            tensor.register_hook(noting(log, name))
        backward(result)

    expect_same_log(candidate, lab, program)


@requirement(
    "engine/retain-grad-on-the-output",
    MUST,
    since="2026.12",
    source="pytorch/pytorch#36383",
    styles=FUNCTION_LIKE,
)
def retain_grad_on_the_output(candidate: Candidate, lab: Lab) -> None:
    """`retain_grad` on a region's output and on its input gives the plain run's gradients.

    Analysis code reads hidden states' gradients.

    How: return tensors of the outer graph.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        before = x * 1
        output = which.run(region(before, weight), pass_through)
        before.retain_grad()
        output.retain_grad()
        backward(output.sin())
        return gradients_of(input=before, output=output)

    expect_program_like_plain(candidate, lab, program)


@requirement("engine/backward-inside-a-hook", MUST, since="2026.12", source="pytorch/pytorch#6959")
def backward_inside_a_hook(candidate: Candidate, lab: Lab) -> None:
    """A hook of one backward may run another region's whole forward and backward.

    Optimizers that step in a hook and auxiliary losses do so. State of "the" running backward that is global
    rather than per backward is overwritten by the inner one.

    How: key whatever a backward keeps by the backward (the graph task), not by a global.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        inner_x, inner_weight = lab.tensor(4, 8, seed=3), lab.tensor(8, 8, seed=4)

        def hook(gradient: Tensor) -> None:
            del gradient
            with torch.enable_grad():
                backward(which.run(region(inner_x, inner_weight)))

        middle = which.run(region(x, weight))
        middle.register_hook(hook)
        backward(which.run(region(middle, weight)))
        return gradients_of(input=x, weight=weight, inner=inner_x, inner_weight=inner_weight)

    expect_program_like_plain(candidate, lab, program)


@requirement("engine/removed-hook", SHOULD, since="2026.12", source="pytorch/pytorch#131419")
def removed_hook(candidate: Candidate, lab: Lab) -> None:
    """A hook that the caller removed from a parameter after forward does not fire.

    Handles are removed between forward and backward by context managers. An implementation that registers
    copies of hooks brings them back.

    How: leave the hooks to the tensors they are on.
    """

    def program(which: Candidate, bench: Lab, log: Log) -> None:
        x, weight = leaves(bench)
        handle = weight.register_hook(noting(log, "weight"))
        result = which.run(region(x, weight))
        handle.remove()
        backward(result)
        log.append(f"gradient {_gradient(weight).norm().item():.6g}")

    expect_same_log(candidate, lab, program)
