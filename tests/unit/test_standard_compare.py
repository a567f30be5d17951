"""Which differences from the plain run are the candidate's fault, and which are another right rounding."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.standard.evidence import Violation, within_rounding
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import requirements

TRANSPOSED = next(made for made in requirements() if made.id == "views/transpose-saved-by-consumer")
FILLED = next(made for made in requirements() if made.id == "values/last-operation-fills-what-it-saved")


def kept_as(change):
    return Candidate.from_context(lambda: saved_tensors_hooks(change, lambda tensor: tensor), name="kept")


def contiguous(tensor):
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def test_saved_tensors_that_come_back_contiguous_may_round_otherwise() -> None:
    TRANSPOSED.check(kept_as(contiguous), Lab())


def test_what_is_a_little_off_for_no_such_reason_is_wrong() -> None:
    with pytest.raises(Violation, match="gradient of"):
        TRANSPOSED.check(kept_as(lambda tensor: tensor.detach() * (1 + 3e-7)), Lab())


def test_a_copy_made_too_early_is_wrong_even_where_the_moved_plain_run_makes_it_too() -> None:
    with pytest.raises(Violation, match="gradient of"):
        FILLED.check(kept_as(contiguous), Lab())


@pytest.mark.parametrize(
    ("found", "near"),
    [([1.0, 2.0], True), ([1.0, 2.0 + 1e-6], True), ([1.0, 2.001], False), ([1.0, torch.nan], False)],
    ids=["same", "a few ulp", "a thousandth", "nan"],
)
def test_rounding_is_a_few_ulp_of_the_largest_element(found, near) -> None:
    assert within_rounding(torch.tensor([1.0, 2.0]), torch.tensor(found)) is near


def test_a_missing_tensor_is_near_another_missing_one_only() -> None:
    assert within_rounding(None, None)
    assert not within_rounding(torch.ones(1), None)
