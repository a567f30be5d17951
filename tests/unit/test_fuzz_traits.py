"""What a program does is read off its source in words that programs of one cause share."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.fuzz.execute import execute
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import useless
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.reduce import reduced
from ckpt_conformance.fuzz.traits import traits

LENT = "a region returns a tensor of the caller's"
SETUP = ("x0 = leaf(4, 4, seed=0)", "x1 = leaf(4, 4, seed=1)", "w2 = leaf(4, 4, seed=2)")


def _program(*body, given="(x0,), {}", signature="a1_0", before=(), after=()):
    region = (f"def region1({signature}):", *(f"    {line}" for line in body))
    consumer = ("def consumer1(out):", "    met = meet(out)", "    return met")
    run = (f"v9 = run(region1, {given}, consumer1)", "result = v9")
    return Program(
        SETUP, ("x0", "x1", "w2"), (*before, *region, *consumer, *run, *after), "once", "", 1, frozenset()
    )


@pytest.mark.parametrize(
    ("body", "signature", "given"),
    [
        (["return a1_0"], "a1_0", "(x0,), {}"),
        (["v3 = a1_0.permute(1, 0)", "return (v3.sin(), v3)"], "a1_0", "(x0,), {}"),
        (["a1_0, = [box['x'], *box['more'][0]]", "return a1_0"], "box", "({'x': x0, 'more': [[], 3]},), {}"),
        (["a1_0, _ = box.x, box.more", "return a1_0"], "box", "(Box(x0, None),), {}"),
        (["a1_0, a1_1, = pair", "return a1_1"], "pair", "((x0, x1),), {}"),
        (["v3 = w2.transpose(-1, -2)", "return v3"], "a1_0", "(x0,), {}"),
    ],
)
def test_a_tensor_that_a_region_has_not_made_is_the_callers(body, signature, given):
    assert LENT in traits(_program(*body, signature=signature, given=given))


@pytest.mark.parametrize("body", [["v3 = a1_0.sin()", "return v3"], ["v3 = a1_0[0] + 1", "return v3"]])
def test_a_tensor_that_a_region_has_made_is_its_own(body):
    assert LENT not in traits(_program(*body))


def test_a_region_that_returns_nothing_is_told():
    assert "no tensor among the outputs" in traits(_program("v3 = a1_0.sin()"))
    assert "no tensor among the outputs" not in traits(_program("raise KeyError('planned')"))


CACHING = (
    "stash = {}", "def caching(x):", "    y = x.sin()", "    stash.update(x=x, y=y)", "    note(y)",
    "    return y.exp()", "start = x0.detach().requires_grad_()",
    "run(caching, (start * 1,), {}, meet).sum().backward()",
)  # fmt: skip
WAVERING = (
    "runs = []", "def wavering(x):", "    y = x.sin()", "    runs.append(0)",
    "    if len(runs) > 1: y = (y * 2).double()", "    return y * y", "begun = x0.detach().requires_grad_()",
    "wavers = run(wavering, (begun,), {}, lambda out: meet(out.sin()))",
)  # fmt: skip
KEEPS = "a region that keeps a tensor, with a backward of its own"


@pytest.mark.parametrize(("lines", "what"), [(CACHING, KEEPS), (WAVERING, "a second run that differs")])
def test_what_is_written_around_a_region_for_one_purpose_is_told_in_its_words_alone(lines, what):
    assert traits(_program("v3 = a1_0.sin()", "return v3", before=lines)) == {what}
    detached = _program("v3 = a1_0.detach()", "return v3.sin()", before=lines)
    assert traits(detached) == {what, "detach"}  # the word is another line's as well


@pytest.mark.parametrize(
    ("body", "trait", "left"),
    [
        (["return a1_0"], "nothing", set()),
        (["v3 = x1.sin()", "return v3"], "nothing", set()),
        (["v3 = a1_0.sort(-1).values", "return v3"], "detach", {"detach"}),
        (["v3 = F.layer_norm(a1_0, (4,), x1[0], x1[1])", "return v3"], "detach", {"detach"}),
    ],
)
def test_a_program_is_made_smaller_until_it_compares(body, trait, left):
    """Closures become arguments, what is returned is made, one operation stands for the like."""

    def keeps(program):
        needed = trait == "nothing" or traits(program) & {"sort", "layer_norm", trait}
        runs = "run(region1, (x0" in program.source()
        return bool(needed) and runs and not useless(program, execute(program, PLAIN))

    assert traits(reduced(_program(*body), keeps)) == left


def test_a_constant_that_a_function_knows_becomes_no_argument():
    knows = _program("v3 = Knows.apply(a1_0, c4)", "return v3")
    program = dataclasses.replace(knows, setup=(*SETUP, "c4 = leaf(2, seed=3, grad=False)"))
    program = dataclasses.replace(program, leaves=(*program.leaves, "c4"))
    small = reduced(
        program, lambda found: "Knows" in found.source() and not useless(found, execute(found, PLAIN))
    )
    assert "Knows.apply(a1_0, c4)" in small.source()


@pytest.mark.parametrize(
    ("feature", "what"), [("caches-a-tensor", KEEPS), ("second-run-", "a second run that differs")]
)
def test_the_grammars_own_lines_are_told_in_those_words(feature, what):
    made = (make_program(random.Random(seed).choice) for seed in itertools.count())
    found = (program for program in made if any(each.startswith(feature) for each in program.features))
    assert all(what in traits(program) for program in itertools.islice(found, 20))
