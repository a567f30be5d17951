import gc
import weakref

import torch

from ckpt_conformance.instruments.census import reachable_nodes, take_census


def difference(make):
    before = take_census()
    made = make()
    after = take_census()
    del made
    return {name: getattr(after, name) - getattr(before, name) for name in ("tensors", "nodes", "bytes")}


def test_views_of_one_storage_count_its_bytes_once():
    def make():
        base = torch.empty(16)
        return base, base[:4], base.view(4, 4)

    assert difference(make) == {"tensors": 3, "nodes": 0, "bytes": 64}


def test_what_a_graph_saved_counts_though_no_object_stands_for_it():
    leaf = torch.ones(16, requires_grad=True)

    def make():
        return leaf.sin().exp().sum()

    # the exponential's output, and the scalar
    assert difference(make) == {"tensors": 1, "nodes": 4, "bytes": 64 + 4}


def test_gradients_count_the_same_before_and_after_they_were_looked_at():
    leaf = torch.ones(8, requires_grad=True)
    leaf.sum().backward()
    first = take_census()
    second = take_census()
    assert first == second
    assert first.grad_bytes >= 32


def test_counting_runs_no_unpack_hook():
    unpacked = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.detach(), unpacked.append):
        kept = torch.ones(4, requires_grad=True).exp()
    take_census()
    assert unpacked == []
    del kept


def test_counting_collects_no_garbage_and_keeps_nothing_alive():
    gc.disable()
    try:
        cycle = [torch.ones(4)]
        cycle.append(cycle)
        in_a_cycle, alone = weakref.ref(cycle[0]), torch.ones(4)
        del cycle
        take_census()
        assert in_a_cycle() is not None
        gone = weakref.ref(alone)
        del alone
        assert gone() is None
    finally:
        gc.enable()


def test_counting_the_other_device_counts_no_tensor_of_this_one():
    before = take_census("meta")
    kept = torch.ones(4)
    census = take_census("meta")
    assert (census.tensors, census.bytes) == (before.tensors, before.bytes)
    del kept


def test_types_are_counted_when_asked_for():
    class Unheard:
        pass

    kept = [Unheard(), Unheard()]
    name = f"{Unheard.__module__}.{Unheard.__qualname__}"
    assert take_census(with_types=True).types[name] == len(kept)
    assert take_census().types == {}


def test_a_discarded_storage_counts_nothing():
    before = take_census().bytes
    tensor = torch.ones(8)
    tensor.untyped_storage().resize_(0)
    assert take_census().bytes == before


def test_a_graph_has_each_node_once():
    leaf = torch.ones(2, requires_grad=True)
    twice = leaf * 2
    assert len(reachable_nodes([twice + twice])) == 3
