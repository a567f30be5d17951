"""What the standard says of a recompute that differs from the forward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ckpt_conformance import Candidate
from ckpt_conformance.standard.evidence import Violation
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.recompute.mismatches import fewer_tensors_reported


def runs_out_of_places(fn, *args):
    """Keep a place for each saved tensor, and trust that the recompute fills them all."""
    places, again = [], []

    def pack(saved: Tensor) -> int:
        places.append(saved.shape)
        return len(places) - 1

    def unpack(place: int) -> Tensor:
        if not again:
            with torch.autograd.graph.saved_tensors_hooks(again.append, lambda _: None), torch.enable_grad():
                fn(*args)
        return again[place]

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        return fn(*args)


def test_an_accident_in_place_of_a_report_is_told_as_one() -> None:
    with pytest.raises(Violation) as told:
        fewer_tensors_reported(Candidate.from_function(runs_out_of_places, name="mine"), Lab())
    assert told.value.summary == "a recompute with fewer saved tensors ends in an accident"
    assert told.value.expected == "an error that says so"
    assert told.value.found == "IndexError: list index out of range"
