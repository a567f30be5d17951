"""Sharing storages: what it gives, and each danger that it refuses."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from ckpt_conformance.reference import CheckpointError, backend, share_storage
from ckpt_conformance.reference.share import discard

BACKENDS = ("extension", "python")


@pytest.fixture(autouse=True, params=BACKENDS)
def chosen(request, monkeypatch):
    if request.param == "python" and not hasattr(torch.UntypedStorage, "_swap_data_ptr_"):
        pytest.skip("the Python backend needs torch 2.12")
    monkeypatch.setenv("CKPT_REFERENCE_BACKEND", request.param)
    return request.param


def emptied(like):
    """A tensor of that form whose storage is discarded, and a view of it made before."""
    tensor = torch.zeros_like(like)
    view = tensor.view(-1)[1:]
    tensor.untyped_storage().resize_(0)
    return tensor, view


def test_the_backend_asked_for_is_the_one_in_use(chosen):
    assert backend().name == chosen


def test_destination_and_its_views_show_the_source():
    src = torch.arange(6.0).reshape(2, 3)
    dst, view = emptied(src)
    share_storage(dst, src)
    assert torch.equal(dst, src)
    assert torch.equal(view, torch.arange(1.0, 6.0))


def test_nothing_is_copied():
    src = torch.arange(6.0)
    dst, _ = emptied(src)
    address = src.data_ptr()
    share_storage(dst, src)
    assert dst.data_ptr() == src.data_ptr() == address
    assert dst.untyped_storage().nbytes() == 24


def test_no_version_counter_moves():
    src = torch.arange(6.0)
    dst, view = emptied(src)
    before = (src._version, dst._version, view._version)
    share_storage(dst, src)
    assert (src._version, dst._version, view._version) == before


def test_an_in_place_change_shows_on_both_sides():
    src = torch.arange(6.0)
    dst, _ = emptied(src)
    share_storage(dst, src)
    src.add_(1)
    assert torch.equal(dst, torch.arange(1.0, 7.0))


def test_bytes_outlive_the_source():
    src = torch.arange(6.0)
    dst, _ = emptied(src)
    share_storage(dst, src)
    del src
    gc.collect()
    torch.full((6,), 99.0)
    assert torch.equal(dst, torch.arange(6.0))


def test_bytes_outlive_the_destination():
    src = torch.arange(6.0)
    dst, view = emptied(src)
    share_storage(dst, src)
    del dst, view
    torch.full((6,), 99.0)
    assert torch.equal(src, torch.arange(6.0))


def test_storages_die_with_their_tensors_without_the_collector():
    src = torch.arange(6.0)
    dst, view = emptied(src)
    share_storage(dst, src)
    watched = [StorageWeakRef(src.untyped_storage()), StorageWeakRef(dst.untyped_storage())]
    gc.disable()
    try:
        del src, dst, view
        assert [reference.expired() for reference in watched] == [True, True]
    finally:
        gc.enable()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_a_chain_is_right_in_any_order_of_release(order):
    first = torch.arange(6.0)
    second, _ = emptied(first)
    third, _ = emptied(first)
    share_storage(second, first)
    share_storage(third, second)
    held = [first, second, third]
    del first, second, third
    for gone, number in enumerate(order[:2], start=1):
        held[number] = None
        torch.full((6,), 99.0)
        alive = [tensor for tensor in held if tensor is not None]
        assert len(alive) == 3 - gone
        assert all(torch.equal(tensor, torch.arange(6.0)) for tensor in alive)


def test_one_source_can_serve_two_destinations():
    src = torch.arange(6.0)
    one, _ = emptied(src)
    two, _ = emptied(src)
    share_storage(one, src)
    share_storage(two, src)
    del src
    assert torch.equal(one, two)


def test_resizing_the_source_afterwards_leaves_the_destination_intact():
    src = torch.arange(6.0)
    dst, _ = emptied(src)
    share_storage(dst, src)
    with contextlib.suppress(RuntimeError):  # one backend refuses, the other lets go of its share
        src.untyped_storage().resize_(0)
    torch.full((6,), 99.0)
    assert torch.equal(dst, torch.arange(6.0))


def test_a_source_that_takes_other_memory_leaves_its_borrower_intact():
    src, other = torch.arange(6.0), torch.ones(6)
    dst, _ = emptied(src)
    share_storage(dst, src)
    share_storage(src, other)
    assert torch.equal(src, torch.ones(6))
    assert torch.equal(dst, torch.arange(6.0))


def test_sharing_back_makes_no_ring():
    src = torch.arange(6.0)
    dst, _ = emptied(src)
    share_storage(dst, src)
    share_storage(src, dst)
    watched = StorageWeakRef(src.untyped_storage())
    assert torch.equal(src, torch.arange(6.0))
    del src
    assert watched.expired()
    assert torch.equal(dst, torch.arange(6.0))


def test_offset_and_strides_are_kept():
    whole = torch.arange(20.0)
    src = whole[4:16].view(3, 4).t()
    target = torch.zeros(20)
    dst = target[4:16].view(3, 4).t()
    share_storage(dst, src)
    assert torch.equal(target, whole)


def test_an_empty_tensor_is_no_problem():
    share_storage(torch.empty(0), torch.empty(0))


def test_same_storage_is_refused():
    tensor = torch.arange(6.0)
    with pytest.raises(CheckpointError, match="the same storage"):
        share_storage(tensor.view(6), tensor)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (torch.zeros(6, dtype=torch.float64), "dtype"),
        (torch.zeros(5), "shape"),
        (torch.zeros(2, 3), "shape"),
        (torch.zeros(12)[::2], "strides"),
        (torch.zeros(7)[1:], "storage offset"),
        (torch.zeros(6, device="meta"), "device"),
        (torch.zeros(6).to_sparse(), "layout"),
    ],
)
def test_unlike_tensors_are_refused(source, said):
    dst = torch.arange(6.0)
    with pytest.raises(CheckpointError, match=said):
        share_storage(dst, source)
    assert torch.equal(dst, torch.arange(6.0))


def test_too_few_bytes_are_refused():
    src = torch.zeros(6)
    src.untyped_storage().resize_(8)
    dst = torch.arange(6.0)
    with pytest.raises(CheckpointError, match="needs 24 bytes, the source's storage has 8"):
        share_storage(dst, src)
    assert torch.equal(dst, torch.arange(6.0))


def test_a_tensor_without_memory_is_refused():
    with pytest.raises(CheckpointError, match="no memory of its own"):
        share_storage(torch.zeros(6, device="meta"), torch.zeros(6, device="meta"))


def test_a_discarded_storage_refuses_access_and_comes_back(chosen):
    src = torch.arange(6.0)
    dst = torch.zeros(6)
    discard(dst.untyped_storage(), "gone until backward")
    assert dst.untyped_storage().nbytes() == 0
    if chosen == "extension" and backend().guards:
        with pytest.raises(RuntimeError, match="gone until backward"):
            dst.add(1)
        with pytest.raises(RuntimeError, match="gone until backward"):
            dst.add_(1)
    share_storage(dst, src)
    assert torch.equal(dst + 1, torch.arange(1.0, 7.0))


def test_what_is_lost_without_the_extension_is_said(chosen):
    said = "not caught" in backend().remark
    assert said == (not backend().guards)


def test_an_unknown_backend_is_refused(monkeypatch):
    monkeypatch.setenv("CKPT_REFERENCE_BACKEND", "magic")
    with pytest.raises(CheckpointError, match="'magic'"):
        backend()
