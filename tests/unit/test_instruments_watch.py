from __future__ import annotations

import gc

import torch

from ckpt_conformance.instruments.watch import (
    LiveBytes,
    NodeWatch,
    ObjectWatch,
    StorageWatch,
    leaves_of_graph,
    visible_tensors,
    without_collector,
)


def test_the_collector_is_off_inside_and_as_before_afterwards() -> None:
    assert gc.isenabled()
    with without_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_watched_storage_dies_with_its_last_tensor() -> None:
    watch = StorageWatch()
    tensor = watch.add("tensor", torch.ones(8))
    view = tensor[2:]
    del tensor
    assert watch.alive() == ["tensor"]
    assert watch.bytes_alive() == 32
    del view
    assert watch.alive() == []
    assert watch.bytes_alive() == 0


def test_a_storage_that_only_an_operation_saved_is_seen_alive() -> None:
    watch = StorageWatch()
    leaf = torch.ones(8, requires_grad=True)
    loss = watch.add("exp", leaf.exp()).sum()
    assert watch.alive() == ["exp"]
    loss.backward()
    assert watch.alive() == []


def test_a_storage_that_was_emptied_counts_as_freed() -> None:
    watch = StorageWatch()
    tensor = watch.add("tensor", torch.ones(8))
    tensor.untyped_storage().resize_(0)
    assert watch.alive() == []


def test_bytes_of_a_storage_watched_twice_are_counted_once() -> None:
    watch = StorageWatch()
    tensor = watch.add("whole", torch.ones(8))
    watch.add("view", tensor[:4])
    assert watch.alive() == ["whole", "view"]
    assert watch.bytes_alive() == 32


def test_the_tensors_on_a_watched_storage_are_found() -> None:
    watch = StorageWatch()
    tensor = watch.add("tensor", torch.ones(8))
    alias = tensor.detach()
    assert {id(found) for found in watch.tensors()} == {id(tensor), id(alias)}


def test_a_watched_node_dies_with_its_graph() -> None:
    watch = NodeWatch()
    leaf = torch.ones(8, requires_grad=True)
    inner = watch.add("inner", leaf * 2)
    outer = watch.add("outer", inner.sin())
    watch.add("no node", leaf)
    del inner
    assert watch.alive() == ["inner", "outer"]
    del outer
    assert watch.alive() == []


def test_a_watched_object_in_a_cycle_lives_until_it_is_collected() -> None:
    class Ring:
        def __init__(self) -> None:
            self.ring = self

    watch = ObjectWatch()
    with without_collector():
        watch.add("ring", Ring())
        assert watch.alive() == ["ring"]
        gc.collect()
        assert watch.alive() == []


def test_live_bytes_counts_what_operations_made_and_still_lives() -> None:
    with LiveBytes() as live:
        kept = torch.ones(8)
        view = kept[4:]
        torch.ones(100)
        assert live.now() == 32
        del kept
        assert live.now() == 32
        del view
        assert live.now() == 0


def test_live_bytes_sees_tensors_that_no_python_code_held() -> None:
    leaf = torch.ones(8, requires_grad=True)
    with LiveBytes() as live:
        loss = leaf.exp().sum()
        assert live.now() == 32 + 4
        loss.backward()
        gradient, leaf.grad = leaf.grad, None
        assert gradient is not None
        # the loss, and the gradient that the backward made
        assert live.now() == 4 + 32
        del gradient
        assert live.now() == 4
        del loss
        assert live.now() == 0


def test_live_bytes_does_not_count_what_was_there_before() -> None:
    before = torch.ones(1000)
    with LiveBytes() as live:
        before.add_(1)
        assert live.now() == 0


def test_visible_tensors_have_python_objects() -> None:
    tensor = torch.ones(3)
    assert any(found is tensor for found in visible_tensors())


def test_leaves_of_a_graph_are_each_found_once_and_without_unpacking() -> None:
    unpacked: list[int] = []
    first, second = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda t: unpacked.append(1) or t):
        result = (first * second).sin() + first
    assert {id(leaf) for leaf in leaves_of_graph([result])} == {id(first), id(second)}
    assert len(leaves_of_graph([result, result])) == 2
    assert unpacked == []


def test_watches_keep_nothing_alive() -> None:
    storages, nodes = StorageWatch(), NodeWatch()
    tensor = nodes.add("node", torch.ones(8, requires_grad=True) * 2)
    storages.add("tensor", tensor)
    storages.tensors()
    del tensor
    assert storages.alive() == []
    assert nodes.alive() == []
