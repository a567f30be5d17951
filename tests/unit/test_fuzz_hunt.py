"""The hunt finds faults, shrinks them, and leaves right implementations alone."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.fuzz import hunt as hunting
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.hunt import hunt
from ckpt_conformance.fuzz.traits import RANDOM
from ckpt_conformance.fuzz.worker import Worker
from ckpt_conformance.reference import checkpoint as reference
from fixtures.miniatures.rng import rng_is_not_restored
from fixtures.miniatures.values.generated import batches_of_views


def _on_dropout(effect) -> Candidate:
    def run(fn, *args, **kwargs):
        if "dropout" in getattr(getattr(fn, "__code__", None), "co_names", ()):
            effect()
        return fn(*args, **kwargs)

    return Candidate.from_function(run, name="on-dropout")


@pytest.fixture
def ask():
    workers = []

    def make(candidate, **options):
        workers.append(Worker(lambda: candidate, **options))
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()


def test_the_reference_shows_no_difference(ask):
    caught = hunt(ask(Candidate.from_function(reference, name="reference")), examples=60)
    assert (caught.programs, caught.useless, caught.groups) == (60, [], [])


def test_a_fault_is_found_and_shrunk_to_what_it_needs(ask):
    caught = hunt(ask(rng_is_not_restored()), examples=100, start=1)
    faults = [group for group in caught.faults() if group.cause & RANDOM]
    assert [group.cause for group in faults] == [{"dropout"}]
    assert len(faults[0].program.step) <= 10


def test_a_fault_of_layout_is_found_within_500_programs(ask):
    worker = ask(batches_of_views())
    answers = (worker(make_program(random.Random(seed).choice)) for seed in range(500))
    assert any(found.difference and found.difference.aspect == "a gradient differs" for found in answers)


@pytest.mark.parametrize(
    ("effect", "aspect"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "the process dies by SIGSEGV"),
        (lambda: os._exit(3), "the process dies with exit code 3"),
        (lambda: time.sleep(60), "the program hangs"),
    ],
)
def test_a_program_that_takes_the_process_with_it_is_a_difference(ask, effect, aspect):
    worker = ask(_on_dropout(effect), seconds=2.0)

    def choose(options):
        return "dropout" if "dropout" in options else options[0]

    found = worker(make_program(choose)).difference
    assert found is not None
    assert found.aspect == aspect
    assert worker(make_program(lambda options: options[0])).difference is None


@pytest.mark.parametrize(
    ("effect", "aspect", "seconds"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "the process dies by SIGSEGV", 10.0),
        (lambda: time.sleep(60), "the program hangs", 0.3),
    ],
)
def test_a_program_that_takes_the_process_with_it_is_shrunk(ask, effect, aspect, seconds, monkeypatch):
    monkeypatch.setattr(hunting, "SHRINKING", 3.0)  # each try of a program that hangs takes its whole time
    worker, differing = ask(_on_dropout(effect), seconds=seconds), []

    def asking(program):
        answer = worker(program)
        if answer.difference:
            differing.append(program)
        return answer

    caught = hunt(asking, examples=60, start=3, seconds=6)
    assert {group.difference.aspect for group in caught.faults()} == {aspect}
    assert len(caught.faults()[0].program.step) < len(differing[0].step)
