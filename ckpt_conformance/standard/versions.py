"""versions: restoring moves no version counter, and an in-place change is never silently wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.instruments.versions import VersionLedger
from ckpt_conformance.regions import Consumer, Region, keep_saved, mlp, sample
from ckpt_conformance.standard.compare import (
    Observation,
    backward_from,
    expect_like_plain,
    expect_right_or_error,
    gradients_of,
    observe,
)
from ckpt_conformance.standard.evidence import expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, requirement


@requirement("versions/restoring-moves-no-version", MUST, since="2026.12", source="NVIDIA/Megatron-LM#3649")
def restoring_moves_no_version(candidate: Candidate, lab: Lab) -> None:
    """Neither forward nor backward moves the version counter of the output or of a view of it.

    The consumer saved the output at some version. A restore that writes into it (`copy_`, `set_`) moves the
    counter, and autograd refuses a backward that is right; to silence that, implementations then hide all
    in-place changes, the wrong ones too.

    How: restore on the level of storages, which have no version.
    """
    ledger = VersionLedger()
    held: list[Tensor] = []

    def consumer(output: Tensor) -> Tensor:
        view = output[1:]
        held.extend((output, view))
        ledger.watch("the output", output)
        ledger.watch("a view of the output", view)
        return view.sin()

    result = candidate.run(mlp(lab.device), consumer)
    backward_from(result)
    moved = ledger.moved()
    if moved:
        violated("a version counter moved", expected="none", found="; ".join(map(str, moved)))


@requirement("versions/changed-input-is-caught", MUST, since="2026.12", source="pytorch/pytorch#36383")
def changed_input_is_caught(candidate: Candidate, lab: Lab) -> None:
    """An input that is changed in place between forward and backward gives an error or right gradients.

    The recompute starts from the inputs. One that was changed since gives other activations, and gradients of
    a function that nobody computed; a plain run raises, or never needed the input again.

    How: keep inputs as saved tensors of the graph, whose versions autograd checks.
    """
    x = lab.tensor(4, 8)
    _expect_caught(candidate, lambda live: Region(lambda x: (x * x + 1).sin(), (live,)), x)


@requirement(
    "versions/changed-container-is-caught", MAY, since="2026.12", capability="containers",
    source="torch 2.13, checkpoint(use_reentrant=False) on the CPU",
)  # fmt: skip
def changed_container_is_caught(candidate: Candidate, lab: Lab) -> None:
    """A tensor in a list or dict argument that is changed in place gives an error or right gradients.

    Containers are easily kept as plain references, past the version check that top-level tensors get.

    How: flatten the arguments and keep every tensor in them as a saved tensor.
    """

    def fn(nested: dict[str, list[Tensor]]) -> Tensor:
        (live,) = nested["hidden"]
        return (live * live).sin()

    _expect_caught(candidate, lambda live: Region(fn, ({"hidden": [live]},)), lab.tensor(4, 8))


@requirement(
    "versions/changed-keyword-is-caught", MAY, since="2026.12", capability="kwargs",
    source="torch 2.13, checkpoint(use_reentrant=False) on the CPU",
)  # fmt: skip
def changed_keyword_is_caught(candidate: Candidate, lab: Lab) -> None:
    """A tensor passed by keyword that is changed in place gives an error or right gradients.

    Keyword arguments are often bound into the function, where nothing watches their versions.

    How: treat keyword tensors as positional ones.
    """

    def fn(x: Tensor, *, hidden: Tensor) -> Tensor:
        return (x * hidden * hidden).sin()

    other = lab.tensor(4, 8, seed=1)
    _expect_caught(candidate, lambda live: Region(fn, (other,), {"hidden": live}), lab.tensor(4, 8))


@requirement(
    "versions/changed-closure-tensor-is-caught", MUST, since="2026.12",
    source="torch 2.13, checkpoint(use_reentrant=False) on the CPU",
)  # fmt: skip
def changed_closure_tensor_is_caught(candidate: Candidate, lab: Lab) -> None:
    """A tensor that the region reaches by closure and saves gives, if changed, an error or right gradients.

    Parameters are closure tensors: an optimiser step between a forward and its backward, as in pipelined or
    delayed training, changes them in place. A plain run raises; a recompute with the new weights is silent.

    How: note the version of what the forward saves, and compare when the recompute saves the same tensor.
    """
    other = lab.tensor(4, 8, seed=1)
    _expect_caught(
        candidate, lambda live: Region(lambda x: (x * live).sin() * live, (other,)), lab.tensor(4, 8)
    )


@requirement("versions/changed-output-is-caught", MUST, since="2026.12", source="pytorch/pytorch#36383")
def changed_output_is_caught(candidate: Candidate, lab: Lab) -> None:
    """An output that is changed in place after it was saved gives an error or right gradients.

    The output may be saved by the region (tanh keeps its result) and by the consumer. A plain run raises for
    either. Keeping an alias with a version counter of its own makes the change invisible.

    How: recompute what was saved, or hand back the tensor itself so that its version is checked.
    """
    for changing, unchanged in ((_save_then_change, Tensor.sin), (_read_then_change, _double)):
        _expect_output_caught(candidate, lab, changing, unchanged)


@requirement("versions/in-place-inside-works", MUST, since="2026.12", source="pytorch/pytorch#36383")
def in_place_inside_works(candidate: Candidate, lab: Lab) -> None:
    """Legal in-place operations inside the region, on tensors of its own, give the plain run's results.

    `relu_`, `add_` and masked assignment are ordinary in layers. A recompute that keeps references instead of
    values at the time of saving, or forbids them, breaks such layers.

    How: run the region as it is; what it makes anew it may change.
    """

    def fn(x: Tensor) -> Tensor:
        hidden = (x * 2).add_(1).relu_() + 1
        hidden[:, :3] *= 0.5
        return hidden.sin()

    expect_like_plain(candidate, lab, lambda device: Region(fn, (sample(4, 8, device=device),)))


@requirement(
    "versions/in-place-on-saved-tensor-inside", MUST, since="2026.12",
    source="torch 2.13, checkpoint(use_reentrant=False) on the CPU",
)  # fmt: skip
def in_place_on_saved_tensor_inside(candidate: Candidate, lab: Lab) -> None:
    """A region that changes a tensor which it saved before gives an error or right gradients.

    A plain run raises. Under saved-tensor hooks autograd checks no version, and the recompute changes the
    saved tensor again before anybody reads it.

    How: note the version with each recomputed tensor and check it when it is handed over.
    """
    _expect_inside(candidate, lab, lambda saved: saved)


@requirement("versions/in-place-through-a-view-inside", MUST, since="2026.12", source="pytorch/pytorch#96319")
def in_place_through_a_view_inside(candidate: Candidate, lab: Lab) -> None:
    """A saved tensor changed through a view within the region, or under a mode, is an error or does no harm.

    A view made below autograd, as a dispatch mode sees it, shares the storage but not the version counter. A
    cache that a mode fills keeps such tensors, and a later change through the other one stays unseen.

    How: check the version of what is handed over when it is used, and cache only tensors that share the
    version counter of what they stand for.
    """
    with _Watching():
        _expect_inside(candidate, lab, lambda saved: saved[1:3])


@requirement("versions/recompute-replays-no-mutation", MUST, since="2026.12", source="pytorch/functorch#565")
def recompute_replays_no_mutation(candidate: Candidate, lab: Lab) -> None:
    """A region that changes its input in place changes it once, and gives an error or right gradients.

    The recompute runs the mutation again, on the live tensor that the caller still uses: its values move a
    second time, behind everybody's back.

    How: the version of the kept input tells that it was changed; raise before running the region again.
    """

    def fn(x: Tensor) -> Tensor:
        x.add_(1)
        return x.sin()

    live = lab.tensor(4, 8, grad=False)
    once = live + 1
    weight = lab.tensor(4, 8, seed=1)
    right = _right(Region(lambda x, weight: (x + 1).sin() * weight, (live.clone(), weight)))
    region = Region(lambda x, weight: fn(x) * weight, (live, weight))
    expect_right_or_error(right, lambda: observe(candidate, region))
    expect_same_tensor("the caller's input after backward", once, live)


class _Watching(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _right(region: Region, consumer: Consumer = keep_saved) -> Observation:
    """What a plain run gives; the gradients are taken off again, since the leaves are used once more."""
    seen = observe(PLAIN, region, consumer)
    for _name, leaf in region.leaves():
        leaf.grad = None
    return seen


def _expect_caught(candidate: Candidate, make: Callable[[Tensor], Region], leaf: Tensor) -> None:
    """The region's tensor `live` is no leaf, so that it may be changed after the forward."""
    result = PLAIN.run(make(leaf * 1))
    backward_from(result)
    right, leaf.grad = gradients_of(leaf=leaf), None
    live = leaf * 1
    try:
        result = candidate.run(make(live))
        with torch.no_grad():
            live.add_(1)
        backward_from(result)
    except (RuntimeError, ValueError):
        return
    for name, gradient in right.items():
        expect_same_tensor(name, gradient, gradients_of(leaf=leaf)[name])


def _expect_inside(candidate: Candidate, lab: Lab, place: Callable[[Tensor], Tensor]) -> None:
    def changing(x: Tensor) -> Tensor:
        saved = x * 2
        sine = saved.sin()
        place(saved).mul_(3)
        return sine * saved.exp()

    def changed(x: Tensor) -> Tensor:
        saved = x * 2
        other = saved.clone()
        place(other).mul_(3)
        return saved.sin() * other.exp()

    right = _right(Region(changed, (lab.tensor(4, 8),)))
    expect_right_or_error(right, lambda: observe(candidate, Region(changing, (lab.tensor(4, 8),))))


def _expect_output_caught(candidate: Candidate, lab: Lab, changing: Consumer, unchanged: Consumer) -> None:
    def region() -> Region:
        return Region(lambda x: (x * 2).tanh(), (lab.tensor(4, 8),))

    expect_right_or_error(_right(region(), unchanged), lambda: observe(candidate, region(), changing))


def _save_then_change(output: Tensor) -> Tensor:
    saved = output.sin()
    with torch.no_grad():
        output.add_(1)
    return saved


def _read_then_change(output: Tensor) -> Tensor:
    doubled = _double(output)
    with torch.no_grad():
        output.add_(1)
    return doubled


def _double(output: Tensor) -> Tensor:
    return output * 2
