"""Generated programs are valid, and the same from the same choices."""

from __future__ import annotations

import random

import pytest

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.fuzz.around import CHANGED
from ckpt_conformance.fuzz.execute import execute
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import useless
from ckpt_conformance.fuzz.program import Program, ProgramError


def _first(options):
    return options[0]


def test_the_first_choice_everywhere_is_the_simplest_program():
    program = make_program(_first)
    assert program.step[-1] == "result = v4"
    assert program.features == {"input-leaf", "call-positional", "sin", "consumer-sin", "plan-once"}


def test_every_program_is_valid():
    seen = set()
    for seed in range(150):
        program = make_program(random.Random(seed).choice)
        assert useless(program, execute(program, PLAIN)) == "", program.source()
        seen |= program.features
    assert {"nested", "captures", "counted-hook", "plan-second", "inner-backward"} <= seen


def test_only_programs_that_change_a_saved_tensor_end_in_an_error():
    stages = set()
    for seed in range(400):
        program = make_program(random.Random(seed).choice)
        if CHANGED in program.features:
            stages.add(execute(program, PLAIN).stage)
    assert {"backward", "done"} <= stages <= {"backward", "done", "freed graph"}


def test_the_plain_run_shows_the_same_twice():
    program = make_program(random.Random(7).choice)
    first, second = execute(program, PLAIN), execute(program, PLAIN)
    assert [value.tolist() for value in first.results] == [value.tolist() for value in second.results]


def test_a_saved_program_reads_back_as_it_was():
    program = make_program(random.Random(3).choice)
    assert Program.from_json(program.to_json()) == program


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"setup": 1}', "null"])
def test_what_is_no_saved_program_is_refused_in_one_line(text):
    with pytest.raises(ProgramError, match=r"^no saved program: .*$"):
        Program.from_json(text)
