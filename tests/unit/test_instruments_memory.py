"""The memory timeline counts tensor memory to the byte."""

from __future__ import annotations

import pytest
import torch

from ckpt_conformance.instruments.memory import MemoryTimeline, record_memory

KIB = 1024


def test_peak_net_and_floor_in_bytes() -> None:
    with record_memory() as timeline:
        first = torch.empty(2 * KIB)
        second = torch.empty(KIB)
        del first
        third = torch.empty(10)
    assert timeline.peak == 12 * KIB
    assert timeline.net == 4 * KIB + 40
    assert timeline.floor == 0
    assert second.numel() + third.numel() == KIB + 10


def test_marks_cut_the_timeline() -> None:
    with record_memory() as timeline:
        first = torch.empty(2 * KIB)
        timeline.mark("middle")
        second = torch.empty(KIB)
        del first, second
    before, after = timeline.until("middle"), timeline.since("middle")
    assert (before.peak, before.net) == (8 * KIB, 8 * KIB)
    assert (after.peak, after.floor, after.net) == (4 * KIB, -8 * KIB, -8 * KIB)


def test_unknown_mark_is_a_key_error() -> None:
    with record_memory() as timeline:
        pass
    with pytest.raises(KeyError, match="nowhere"):
        timeline.since("nowhere")


def test_saved_tensors_that_python_never_sees_are_counted() -> None:
    x = torch.zeros(4, 8, requires_grad=True)
    with record_memory() as timeline:
        out = torch.nn.functional.layer_norm(x, (8,))
    assert timeline.net == out.nbytes + 2 * 4 * 4  # the output, and a mean and an rstd per row


def test_blocks_are_counted_by_exact_size() -> None:
    with record_memory() as timeline:
        a, b, c = torch.empty(100), torch.empty(100), torch.empty(101)
    assert timeline.blocks(400) == 2
    assert timeline.blocks(404) == 1
    assert len((a, b, c)) == 3


def test_memory_of_a_backward_is_counted() -> None:
    x = torch.zeros(256, requires_grad=True)
    y = x.sin().sum()
    with record_memory() as timeline:
        y.backward()
    assert timeline.net == x.nbytes  # x.grad; the saved tensor is x itself


def test_an_exception_in_the_block_arrives_unchanged() -> None:
    with pytest.raises(KeyError, match="mine"), record_memory():
        raise KeyError("mine")
    with record_memory() as timeline:
        pass
    assert timeline.net == 0


def test_blocks_need_single_events() -> None:
    timeline = MemoryTimeline(steps=(10, -4), exact=False)
    assert (timeline.peak, timeline.net) == (10, 6)
    with pytest.raises(ValueError, match="count blocks on the CPU"):
        timeline.blocks(10)
