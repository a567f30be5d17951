import functools
import gc
import threading
import weakref

import torch

from ckpt_conformance.instruments.trace.explain import trace, trace_all
from ckpt_conformance.instruments.trace.fingerprint import fingerprint, normalized
from ckpt_conformance.instruments.trace.roots import RootKind

SHELF = {}


class Keeper:
    pass


def kept_by_keeper(make, keeper=Keeper):
    """The path from a keeper, which a dictionary alone holds, to what `make` made it keep."""
    SHELF.clear()
    SHELF["it"] = keeper()
    try:
        found = trace_all([reference() for reference in [make(SHELF["it"])]])
        return found[0].path.text.partition("SHELF['it']")[2]
    finally:
        SHELF.clear()


def make_loss(holder):
    leaf = torch.ones(3, requires_grad=True)
    holder.losses = [leaf.exp().sum()]
    return weakref.ref(leaf)


def test_a_path_runs_over_the_graph():
    expected = ".losses[0].grad_fn.next_functions[0][0].next_functions[0][0].variable"
    assert kept_by_keeper(make_loss) == expected


def test_a_saved_tensor_is_reached_without_unpacking():
    def make(holder):
        other = torch.ones(3)
        holder.product = torch.ones(3, requires_grad=True) * other
        return weakref.ref(other)

    assert kept_by_keeper(make) == ".product.grad_fn._raw_saved_other.data"


def test_a_closure_is_written_by_the_name_it_closes_over():
    def make(holder):
        batch = torch.ones(3)
        holder.callback = lambda: batch
        return weakref.ref(batch)

    assert kept_by_keeper(make) == ".callback.__closure__['batch']"


def test_a_tensors_hook_is_a_reference_of_the_tensor():
    def make(holder):
        caught = torch.ones(3)
        holder.weight = torch.ones(3, requires_grad=True)
        holder.weight.register_hook(functools.partial(torch.add, caught))
        return weakref.ref(caught)

    text = kept_by_keeper(make)
    assert text.startswith(".weight._backward_hooks[")
    assert text.endswith("].args[0]")


def test_a_nodes_hook_is_a_reference_of_the_node():
    def make(holder):
        caught = torch.ones(3)
        holder.result = torch.ones(3, requires_grad=True) * 2
        holder.result.grad_fn.register_hook(functools.partial(torch.add, caught))
        return weakref.ref(caught)

    assert kept_by_keeper(make) == ".result.grad_fn.hooks[0].args[0]"


def test_an_unpack_hook_is_a_reference_of_the_saved_tensor():
    def make(holder):
        caught = torch.ones(3)
        with torch.autograd.graph.saved_tensors_hooks(lambda x: 0, lambda _: caught):
            holder.result = torch.ones(3, requires_grad=True).exp()
        return weakref.ref(caught)

    expected = ".result.grad_fn._raw_saved_result.unpack_hook.__closure__['caught']"
    assert kept_by_keeper(make) == expected


def test_a_view_holds_its_base_and_a_leaf_its_gradient():
    def make_view(holder):
        base = torch.ones(4)
        holder.view = base[:2]
        return weakref.ref(base)

    def make_grad(holder):
        holder.leaf = torch.ones(4, requires_grad=True)
        holder.leaf.sum().backward()
        return weakref.ref(holder.leaf.grad)

    assert kept_by_keeper(make_view) == ".view._base"
    assert kept_by_keeper(make_grad) == ".leaf.grad"


def test_an_instances_materialized_dictionary_makes_no_difference():
    def looked_at():
        keeper = Keeper()
        assert vars(keeper) == {}
        return keeper

    assert kept_by_keeper(make_loss, looked_at) == kept_by_keeper(make_loss)


def test_of_equally_short_paths_the_first_by_its_text_is_taken():
    def make(holder):
        tensor = torch.ones(3)
        holder.zebra = holder.ant = holder.middle = tensor
        return weakref.ref(tensor)

    assert kept_by_keeper(make) == ".ant"


def test_a_local_of_a_running_function_is_named_with_the_function():
    batch = [torch.ones(3)]
    held = trace(batch[0])
    assert held.root is RootKind.FRAME
    assert held.path.text == "batch[0]"
    assert "a_local_of_a_running_function" in held.path.root.name


def test_a_trace_keeps_nothing_alive():
    tensor = torch.ones(3)
    held = trace(tensor)
    gone = weakref.ref(tensor)
    del tensor
    assert gone() is None
    assert held.path is not None


def test_another_threads_local_is_found():
    local, ready, done, made = threading.local(), threading.Event(), threading.Event(), []

    def work():
        local.batch = torch.ones(3)
        made.append(weakref.ref(local.batch))
        ready.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    SHELF["it"] = local
    held = trace_all([made[0]()])[0]
    SHELF.clear()
    done.set()
    thread.join()
    assert held.root is RootKind.THREAD_LOCAL
    assert held.path.text.endswith(".batch")


def test_a_cycle_that_no_root_reaches_is_shown_as_a_cycle():
    gc.disable()
    try:

        def make():
            keeper = Keeper()
            keeper.tensor = torch.ones(3)
            keeper.myself = keeper
            return weakref.ref(keeper.tensor)

        held = trace_all([reference() for reference in [make()]])[0]
        assert (held.path, held.cycle.text) == (None, "<Keeper>.myself")
        assert not held.cycle.native
    finally:
        gc.enable()


def test_a_native_owner_out_of_reach_is_counted_and_not_denied():
    def make(holder):
        base, other = torch.zeros(4, requires_grad=True) * 1, torch.ones(2)
        base[:2].mul_(other)
        holder.result = base
        return weakref.ref(other)

    keeper = Keeper()
    hidden = make(keeper)
    held = trace_all([reference() for reference in [hidden]])[0]
    assert held.path is None
    assert held.owners > held.explained
    assert f"(use_count {held.owners}, explained {held.explained})" in held.text


def test_indices_numbers_and_repetitions_make_no_other_fingerprint():
    first = normalized("a.losses[3].grad_fn.next[0].next[1].next[0].variable")
    assert first == normalized("a.losses[17].grad_fn.next[0].variable")
    assert fingerprint("held", "a[3]") == fingerprint("held", "a[4]")
    assert fingerprint("held", "a[3]") != fingerprint("late", "a[3]")


def test_two_attributes_of_one_instance_are_both_found():
    # the first is a dictionary: writing it down makes the instance keep its attributes in one of its own
    def make(holder):
        holder.by_name = {"tensor": torch.ones(3)}
        holder.alone = torch.ones(3)
        return weakref.ref(holder.by_name["tensor"]), weakref.ref(holder.alone)

    SHELF["it"] = Keeper()
    found = trace_all([reference() for reference in make(SHELF["it"])])
    SHELF.clear()
    assert [held.path.text.partition("['it']")[2] for held in found] == [".by_name['tensor']", ".alone"]


def test_long_keys_that_differ_at_their_end_are_told_apart():
    def make(holder):
        holder.seen = {f"{'a_very_long_name_' * 5}{end}": torch.ones(3) for end in "xy"}
        return weakref.ref(holder.seen[f"{'a_very_long_name_' * 5}y"])

    assert kept_by_keeper(make) == f".seen['{'a_very_long_name_' * 5}y']"


def test_a_trace_keeps_no_class_alive():
    class Local:
        pass

    trace(Local())
    gone = weakref.ref(Local)
    del Local
    gc.collect()
    assert gone() is None
