"""One fault is one group, and two faults are two."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_map

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.fuzz.groups import Group, alike, enter, same_error
from ckpt_conformance.fuzz.hunt import hunt
from ckpt_conformance.fuzz.oracle import SILENT, Difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.raised import PROGRAM, STATEMENT, TORCH
from ckpt_conformance.fuzz.worker import Worker, compare

LOST = Difference("a gradient differs: one is missing", "gradient of x: is none")
MOVED = Difference("a gradient differs", "gradient of x: off by up to 1")
HOOKS = Difference("hooks are called another number of times", "{'hook on x': 1} became {}")
NO_GRAPH = Difference("a region gives something else", "['float32(4,) with a graph'] became ['float32(4,)']")
RETYPED = Difference("a region gives something else", "['float32(4,) with a graph'] became ['float64(4,)']")
ALIVE = Difference("memory stays alive", "3 storages, 0 in the plain run")
DIES = Difference("the process dies by SIGSEGV", "the process died by SIGSEGV")


UNNOTICED = Difference(SILENT, "neither the right gradient nor an error")
HELD = Difference("memory stays alive after backward", "3 storages, 2 in the plain run")


def _raises(message, *, stage="backward", refusal=False, by=""):
    return Difference(f"{stage} raises RuntimeError: {message}", message, refusal, by)


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


GENERIC = _raises("Trying to backward through the graph a second time", by=TORCH)
TWICE = _program(given="(x, x), {}")
BOXED_TWICE = _program(given="((x, x),), {}")


ON_A_LINE = _raises("zip() argument 2 is shorter than argument 1", by="candidate.py:7")


def test_an_error_on_one_line_of_the_candidates_is_one_group():
    assert Group(BOXED, ON_A_LINE).explains(TWICE, ON_A_LINE)
    assert not Group(BOXED, ON_A_LINE).explains(TWICE, dataclasses.replace(ON_A_LINE, by="candidate.py:9"))


def test_an_error_in_words_of_torchs_is_one_where_the_program_does_what_it_needs():
    group = Group(BOXED, GENERIC)
    assert group.explains(HOOKED, GENERIC)
    assert not group.explains(TWICE, GENERIC)
    assert not group.explains(TWICE, _raises("Trying to backward through the graph a second time"))


def test_an_error_in_words_of_torchs_is_one_where_programs_share_what_they_need():
    group = Group(BOXED, GENERIC)
    assert not group.is_again(Group(TWICE, GENERIC))
    assert Group(BOXED_TWICE, GENERIC).is_again(Group(TWICE, GENERIC))
    assert Group(PLAIN, GENERIC).is_again(Group(TWICE, GENERIC))
    groups = [Group(BOXED_TWICE, GENERIC)]
    enter(groups, Group(TWICE, GENERIC))
    assert [group.count for group in groups] == [2]
    assert groups[0].cause == Group(TWICE, GENERIC).cause
    assert groups[0].explains(TWICE, GENERIC)
    assert not groups[0].explains(PLAIN, GENERIC)


def test_the_plan_of_the_backward_alone_makes_no_two_programs_one():
    boxed, twice = dataclasses.replace(BOXED, plan="twice"), dataclasses.replace(TWICE, plan="twice")
    assert not Group(boxed, GENERIC).is_again(Group(twice, GENERIC))


def test_a_mark_on_a_leaf_is_one_where_programs_share_what_they_need():
    marked = Difference("requires_grad of a leaf is changed", "x")
    assert Group(HOOKED, marked).is_again(Group(BOXED_TWICE, marked))
    assert not Group(HOOKED, marked).is_again(Group(TWICE, marked))
    assert not Group(HOOKED, MOVED).is_again(Group(BOXED_TWICE, MOVED))


def test_a_program_that_stumbles_over_one_thing_does_so_in_any_words():
    unpacks = _raises("not enough values to unpack", by=PROGRAM)
    indexes = _raises("tuple indices must be integers", by=PROGRAM)
    assert alike(unpacks, indexes)
    assert not alike(unpacks, _raises("tuple indices must be integers", by=TORCH))
    assert Group(BOXED, unpacks).explains(HOOKED, indexes)
    assert Group(BOXED, RETYPED).explains(HOOKED, indexes)
    assert Group(BOXED, unpacks).explains(HOOKED, RETYPED)
    assert not Group(PLAIN, unpacks).explains(HOOKED, indexes)
    assert not Group(BOXED, unpacks).explains(HOOKED, MOVED)
    assert not Group(BOXED, unpacks).explains(TWICE, indexes)


def test_a_recompute_that_nobody_compares_may_end_in_an_error_that_keeps_memory():
    assert Group(BOXED, UNNOTICED).explains(HOOKED, HELD)
    assert not Group(BOXED, HELD).explains(HOOKED, UNNOTICED)
    assert not Group(BOXED, UNNOTICED).explains(HOOKED, MOVED)
    assert Group(BOXED, MOVED).explains(HOOKED, UNNOTICED)


def test_what_is_never_freed_is_not_freed_by_the_backward():
    assert Group(BOXED, ALIVE).explains(HOOKED, HELD)
    assert not Group(BOXED, HELD).explains(HOOKED, ALIVE)


def _in_own_words(fn, *args, **kwargs):
    raise RuntimeError("no")


def _in_words_of_torchs(fn, *args, **kwargs):
    output = fn(*args, **kwargs).sum()
    output.backward()
    return output.backward()


def _on_a_line_of_its_own(fn, *args, **kwargs):
    return torch.ones(2).item()


def _by_the_program(fn, *args, **kwargs):
    return fn(None)


@pytest.mark.parametrize(
    ("function", "by"),
    [
        (_in_own_words, STATEMENT),
        (_in_words_of_torchs, TORCH),
        (_by_the_program, PROGRAM),
        (_on_a_line_of_its_own, f"{Path(__file__).name}:{_on_a_line_of_its_own.__code__.co_firstlineno + 1}"),
    ],
)
def test_an_error_is_told_with_who_raised_it(function, by):
    found = compare(PLAIN, Candidate.from_function(function, name="raises")).difference
    assert found is not None
    assert found.by == by


def test_a_check_of_torchs_functions_is_the_programs_line():
    region = ("def region(a):", "    return F.dropout(a, 0.5)")
    program = dataclasses.replace(PLAIN, step=(*region, PLAIN.step[-1]))
    found = compare(program, Candidate.from_function(_by_the_program, name="raises")).difference
    assert found is not None
    assert found.by == PROGRAM


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


def _cut(value):
    return value.detach() if isinstance(value, torch.Tensor) else value


def _cuts_containers(fn, args, kwargs):
    return [given if isinstance(given, torch.Tensor) else tree_map(_cut, given) for given in args], kwargs


def _cuts_keywords(fn, args, kwargs):
    return args, tree_map(_cut, kwargs)


def _draws(fn, args, kwargs):
    if "dropout" in getattr(getattr(fn, "__code__", None), "co_names", ()):
        torch.rand(1)
    return args, kwargs


def _is_twice(args):
    return len({id(given) for given in args}) < len(args)


def _stumbles_over_twins(fn, args, kwargs):
    return [None, *args[1:]] if _is_twice(args) else args, kwargs


def _stumbles_over_modules(fn, args, kwargs):
    return ["text" for _ in args] if isinstance(fn, torch.nn.Module) else args, kwargs


def _fails_over_twins(fn, args, kwargs):
    if _is_twice(args):
        torch.ones(2).item()
    return args, kwargs


def _fails_over_modules(fn, args, kwargs):
    if isinstance(fn, torch.nn.Module):
        torch.ones(3).item()
    return args, kwargs


def _candidate(*faults):
    def checkpoint(fn, *args, **kwargs):
        for fault in faults:
            args, kwargs = fault(fn, args, kwargs)
        return fn(*args, **kwargs)

    return Candidate.from_function(checkpoint, name="wrong")


CAUSES = {
    _cuts_containers: {"arguments in containers"},
    _cuts_keywords: {"keyword arguments"},
    _draws: {"dropout"},
    _stumbles_over_twins: {"an argument is given twice"},
    _stumbles_over_modules: {"Block"},
    _fails_over_twins: {"an argument is given twice"},
    _fails_over_modules: {"Block"},
}
"""Faults, each with what a program needs to show it."""


@pytest.mark.parametrize(
    "faults",
    [
        (_cuts_containers,),
        (_draws,),
        (_stumbles_over_modules,),
        (_fails_over_modules,),
        (_cuts_containers, _draws),
        (_cuts_containers, _cuts_keywords),
        (_stumbles_over_twins, _stumbles_over_modules),
        (_fails_over_twins, _fails_over_modules),
        (_stumbles_over_twins, _fails_over_modules, _cuts_containers, _draws),
    ],
    ids=lambda faults: "-and".join(fault.__name__ for fault in faults),
)
def test_each_fault_of_a_candidate_is_one_group(faults):
    worker = Worker(lambda: _candidate(*faults))
    try:
        found = hunt(worker, examples=250, start=2).faults()
    finally:
        worker.close()
    assert sorted(sorted(group.cause) for group in found) == sorted(sorted(CAUSES[fault]) for fault in faults)
