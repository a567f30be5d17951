"""One fault is one group, and two faults are two."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_map

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.fuzz.groups import Group, enter, same_error
from ckpt_conformance.fuzz.hunt import hunt
from ckpt_conformance.fuzz.oracle import Difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.worker import Worker

LOST = Difference("a gradient differs: one is missing", "gradient of x: is none")
MOVED = Difference("a gradient differs", "gradient of x: off by up to 1")
HOOKS = Difference("hooks are called another number of times", "{'hook on x': 1} became {}")
NO_GRAPH = Difference("a region gives something else", "['float32(4,) with a graph'] became ['float32(4,)']")
RETYPED = Difference("a region gives something else", "['float32(4,) with a graph'] became ['float64(4,)']")
ALIVE = Difference("memory stays alive", "3 storages, 0 in the plain run")
DIES = Difference("the process dies by SIGSEGV", "the process died by SIGSEGV")


def _raises(message, *, stage="backward", refusal=False):
    return Difference(f"{stage} raises RuntimeError: {message}", message, refusal)


def _program(*lines, given="(x,), {}", plan="once"):
    step = (*lines, "def region(a):", "    return a.sin()", f"result = run(region, {given}, meet)")
    return Program(("x = leaf(4, seed=0)",), ("x",), step, plan, "", 1, frozenset())


PLAIN = _program()
BOXED = _program(given="((x,),), {}")
HOOKED = _program("x.register_hook(hear('hook on x'))", given="((x,),), {}")


def test_the_cause_is_what_the_smallest_program_does_beyond_the_simplest():
    assert Group(PLAIN, MOVED).cause == set()
    assert Group(BOXED, LOST).cause == {"arguments in containers"}
    assert Group(_program(plan="twice"), MOVED).cause == {"backward: twice"}


@pytest.mark.parametrize("found", [LOST, MOVED, HOOKS, NO_GRAPH])
def test_what_follows_from_a_lost_gradient_is_explained_by_it(found):
    assert Group(BOXED, LOST).explains(HOOKED, found)


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (PLAIN, LOST),
        (HOOKED, ALIVE),
        (HOOKED, RETYPED),
        (HOOKED, _raises("no")),
        (HOOKED, _raises("no", refusal=True)),
    ],
)
def test_a_lost_gradient_explains_nothing_else(program, found):
    assert not Group(BOXED, LOST).explains(program, found)


def test_one_error_is_one_group_whatever_the_program_and_the_sizes_in_it():
    first = _raises("setStorage: sizes [N, N], storage offset N requires a storage size of N")
    second = _raises(
        "setStorage: sizes [N, N, N], storage offset N requires a storage size of N", stage="forward"
    )
    assert same_error(first, second)
    assert Group(BOXED, first).explains(PLAIN, second)
    assert not Group(BOXED, first).explains(BOXED, _raises("another", refusal=True))


def test_a_computation_that_goes_wrong_for_one_reason_may_die_too():
    assert Group(BOXED, DIES).explains(BOXED, MOVED)
    assert Group(BOXED, DIES).explains(HOOKED, MOVED)
    assert not Group(BOXED, MOVED).explains(HOOKED, DIES)
    assert not Group(BOXED, MOVED).explains(BOXED, ALIVE)


def test_an_error_about_memory_that_needs_what_kills_the_process_is_that_again():
    dying, raising = Group(BOXED, DIES), Group(HOOKED, _raises("out of bounds for storage of size N"))
    assert dying.is_again(raising)
    assert not dying.is_again(Group(HOOKED, _raises("'str' object has no attribute 'untyped_storage'")))
    assert not raising.is_again(dying)
    assert not Group(PLAIN, DIES).is_again(raising)


def test_a_group_that_needs_less_takes_over_what_it_explains():
    groups = [Group(HOOKED, HOOKS, count=3), Group(PLAIN, ALIVE)]
    enter(groups, Group(BOXED, LOST))
    assert [(group.program, group.count) for group in groups] == [(BOXED, 4), (PLAIN, 1)]
    assert groups[0].aspects == {LOST.aspect: 1, HOOKS.aspect: 3}
    enter(groups, Group(HOOKED, HOOKS, count=2))
    assert [group.count for group in groups] == [6, 1]


def _detached(given):
    return given if isinstance(given, torch.Tensor) else tree_map(_cut, given)


def _cut(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def _candidate(*, cuts, draws):
    def checkpoint(fn, *args, **kwargs):
        output = fn(*map(_detached, args), **kwargs) if cuts else fn(*args, **kwargs)
        if draws and "dropout" in getattr(getattr(fn, "__code__", None), "co_names", ()):
            torch.rand(1)
        return output

    return Candidate.from_function(checkpoint, name="wrong")


CONTAINERS, DRAWS = frozenset({"arguments in containers"}), frozenset({"dropout"})


@pytest.mark.parametrize(
    ("cuts", "draws", "causes"),
    [(True, False, {CONTAINERS}), (False, True, {DRAWS}), (True, True, {CONTAINERS, DRAWS})],
)
def test_each_fault_of_a_candidate_is_one_group(cuts, draws, causes):
    worker = Worker(lambda: _candidate(cuts=cuts, draws=draws))
    try:
        faults = hunt(worker, examples=250, start=2).faults()
    finally:
        worker.close()
    assert {group.cause for group in faults} == causes
    assert len(faults) == len(causes)
