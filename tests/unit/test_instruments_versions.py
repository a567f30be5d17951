"""The version ledger tells which counters moved."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from ckpt_conformance.instruments.versions import VersionLedger, VersionMove


def test_in_place_change_is_told_with_both_versions() -> None:
    ledger, tensor = VersionLedger(), torch.zeros(3)
    ledger.watch("x", tensor)
    tensor.add_(1)
    tensor.add_(1)
    assert ledger.moved() == (VersionMove("x", 0, 2),)
    assert str(ledger.moved()[0]) == "x: version 0 became 2"


def test_change_through_a_view_is_told_of_base_and_view() -> None:
    ledger, tensor = VersionLedger(), torch.zeros(4)
    view = tensor[1:]
    ledger.watch("base", tensor)
    ledger.watch("view", view)
    view.mul_(2)
    assert [move.name for move in ledger.moved()] == ["base", "view"]


def test_reading_moves_nothing() -> None:
    ledger, tensor = VersionLedger(), torch.zeros(3)
    ledger.watch("x", tensor)
    tensor.untyped_storage().resize_(0)
    tensor.untyped_storage().resize_(12)
    assert ledger.moved() == ()


def test_tensor_is_not_kept_alive() -> None:
    ledger, tensor = VersionLedger(), torch.zeros(3)
    ledger.watch("x", tensor)
    gc.disable()
    try:
        gone = weakref.ref(tensor)
        del tensor
        assert gone() is None
    finally:
        gc.enable()
    assert ledger.moved() == ()


def test_name_is_watched_once() -> None:
    ledger = VersionLedger()
    ledger.watch("x", torch.zeros(1))
    with pytest.raises(ValueError, match="'x' is watched already"):
        ledger.watch("x", torch.zeros(1))
