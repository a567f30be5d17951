"""Programs are made smaller by their source, and stay valid."""

from __future__ import annotations

import ast
import dataclasses
import random

import pytest

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.fuzz.edits import EDITS
from ckpt_conformance.fuzz.execute import execute
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import useless
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.reduce import reduced
from ckpt_conformance.fuzz.traits import traits

_STEP = (
    "def region1(box):",
    "    a1_0, a1_1, = [box['x'], *box['more'][0]]",
    "    v2 = a1_0.tanh()",
    "    v3 = F.linear(v2, w4, w5)",
    "    return {'y': v3, 'more': (v2, None,)}",
    "def consumer1(out):",
    "    o1_0, o1_1, = [out['y'], *out['more'][:-1]]",
    "    v6 = o1_1.reshape(-1)",
    "    met = meet(v6)",
    "    return met",
    "with torch.no_grad():",
    "    v7 = x0 * 2",
    "v8 = run(region1, ({'x': v7, 'more': [[x9], 3]},), {}, consumer1)",
    "result = v8",
)
_SETUP = (
    "x0 = leaf(4, 6, seed=0, dtype=torch.float64)", "x9 = leaf(4, 6, seed=1, grad=False)",
    "w4 = leaf(4, 6, seed=2)", "w5 = leaf(4, seed=3)",
)  # fmt: skip
BIG = Program(_SETUP, ("x0", "x9", "w4", "w5"), _STEP, "twice", "bfloat16", 1, frozenset({"plan-twice"}))


def _runs(program):
    return not useless(program, execute(program, PLAIN))


def test_what_a_difference_does_not_need_is_left_out():
    small = reduced(BIG, _runs)
    assert (small.plan, small.autocast) == ("once", "")
    assert traits(small) <= {"an input without a gradient", "detach"}  # nothing asks for a gradient
    assert len(small.setup) == len(small.leaves) <= 1
    assert len(small.step) <= 8


@pytest.mark.parametrize(
    "trait",
    ["arguments in containers", "outputs in a list or dict", "no_grad", "linear", "backward: twice",
     "autocast around it", "float64", "an input without a gradient"],
)  # fmt: skip
def test_what_a_difference_needs_stays(trait):
    small = reduced(BIG, lambda program: trait in traits(program) and _runs(program))
    assert trait in traits(small)
    assert len(traits(small)) <= 5


def test_a_region_that_runs_in_turns_is_run_once_where_that_does():
    turns = (
        "v8 = sum((run(region1, ({'x': v7 * turn, 'more': [[x9], 3]},), {}, consumer1) for turn in range(3)))"
    )
    in_turns = dataclasses.replace(BIG, step=(*_STEP[:-2], turns, _STEP[-1]))
    once = reduced(in_turns, lambda program: _runs(program) and "run(region1" in program.source())
    assert "turn in" not in once.source()


def test_nothing_comes_in_that_was_not_there():
    rng = random.Random(3)
    for _ in range(2):
        program = make_program(rng.choice)
        small = reduced(program, lambda found: rng.random() < 0.3 and _runs(found))
        assert traits(small) <= traits(program) | {word for edit in EDITS for word in edit.brings}


def test_every_edit_leaves_source_where_a_region_does_nothing_but_unpack():
    step = (
        "def region1(box):", "    a1_0, = [box['x'], *box['more'][0]]",
        "v8 = run(region1, ({'x': x0, 'more': [[], 3]},), {}, lambda out: out)", "result = x0",
    )  # fmt: skip
    program = dataclasses.replace(BIG, step=step)
    made = [edit(program, place) for edit in EDITS for place in range(edit.places(program))]
    assert all(ast.parse("\n".join(smaller.step)) for smaller in made if smaller)


def test_it_stops_when_it_is_tired():
    assert reduced(BIG, _runs, lambda: True) == BIG
