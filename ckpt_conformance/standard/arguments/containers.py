"""arguments: tensors in containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.regions import Region, sample
from ckpt_conformance.standard.compare import expect_like_plain, expect_right_or_error, observe
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, requirement


def nested(device: torch.device) -> Region:
    """A region whose input is a dictionary of lists and tuples, with tensors that need grad."""
    a, b, c = (sample(4, 8, device=device, seed=number) for number in range(3))
    inputs: dict[str, Any] = {"states": [a, (b, None)], "options": {"bias": c, "scale": 0.5}}

    def compute(given: dict[str, Any]) -> Tensor:
        first, (second, _) = given["states"]
        result: Tensor = (first * second).sin() * given["options"]["scale"] + given["options"]["bias"].exp()
        return result

    return Region(compute, (inputs,))


@requirement(
    "arguments/nested-containers",
    MAY,
    since="2026.12",
    capability="containers",
    source=("pytorch/pytorch#121212", "pytorch/pytorch#178568"),
)
def nested_containers(candidate: Candidate, lab: Lab) -> None:
    """Tensors inside nested lists, tuples and dictionaries get their gradients.

    Caches and multimodal batches are passed so. An implementation that looks at top-level tensors only takes
    the rest for constants, and the branch behind them is never trained.

    How: flatten the arguments as a tree.
    """
    expect_like_plain(candidate, lab, nested)


@dataclass
class Batch:
    """An input as users write it."""

    hidden: Tensor
    bias: Tensor


def dataclass_input(device: torch.device) -> Region:
    """A region on a dataclass whose tensors need grad."""
    hidden, bias = sample(4, 8, device=device), sample(8, device=device, seed=1)
    return Region(
        lambda batch: (batch.hidden * batch.bias).tanh(),
        (Batch(hidden, bias),),
        parameters={"hidden": hidden, "bias": bias},
    )


@requirement(
    "arguments/dataclasses",
    MAY,
    since="2026.12",
    capability="containers",
    source="pytorch/pytorch#124725",
)
def dataclasses(candidate: Candidate, lab: Lab) -> None:
    """Tensors in a dataclass that is passed to the region get their gradients.

    No pytree looks into a dataclass that was not registered. It arrives as one object, and its tensors reach
    the region as those of a closure do.

    How: pass unknown objects on as they are, and let the engine reach the tensors through them.
    """
    expect_like_plain(candidate, lab, dataclass_input)


def one_tuple(device: torch.device) -> Region:
    """A region whose only argument is a tuple."""
    pair = sample(4, 8, device=device), sample(4, 8, device=device, seed=1)
    return Region(lambda given, scale=1.0: given[0].sin() * given[1] * scale, (pair,))


@requirement(
    "arguments/tuple-is-one-argument",
    MAY,
    since="2026.12",
    capability="containers",
    source="pytorch/pytorch#19260",
)
def tuple_is_one_argument(candidate: Candidate, lab: Lab) -> None:
    """A single tuple argument arrives as one tuple, not as several arguments.

    Sequential modules pass tuples on. Unpacking one because it is the only argument calls the function with
    another signature than the plain run.

    How: never unpack what the user passed as one.
    """
    expect_like_plain(candidate, lab, one_tuple)


def rebinds_its_dictionary(device: torch.device) -> Region:
    """A region that replaces a value in the dictionary it was given."""
    leaf = sample(4, 8, device=device)

    def compute(state: dict[str, Tensor]) -> Tensor:
        state["x"] = state["x"].sin()
        return state["x"].exp()

    return Region(compute, ({"x": leaf},), parameters={"x": leaf})


@requirement(
    "arguments/rebound-container",
    MAY,
    since="2026.12",
    capability="containers",
    source="https://docs.pytorch.org/docs/stable/checkpoint.html",
)
def rebound_container(candidate: Candidate, lab: Lab) -> None:
    """A region that replaces a value in a container it was given has right gradients, or an error.

    The recompute starts from the container. If that is the caller's own, the region's first run has changed
    it, and the second computes sin(sin(x)) with the right shape, dtype and number of tensors.

    How: rebuild containers from their flattened tensors for each run.
    """
    expected = observe(PLAIN, rebinds_its_dictionary(lab.device))
    expect_right_or_error(expected, lambda: observe(candidate, rebinds_its_dictionary(lab.device)))
