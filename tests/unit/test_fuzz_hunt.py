"""The hunt finds faults, shrinks them, and leaves right implementations alone."""

from __future__ import annotations

import os
import signal
import time

import pytest
from torch.utils.checkpoint import checkpoint

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.hunt import hunt
from ckpt_conformance.fuzz.worker import Worker
from ckpt_conformance.reference import checkpoint as reference
from fixtures.miniatures.values.generated import batches_of_views


def _forgets_dropout() -> Candidate:
    """torch's own, without the random state."""

    def run(fn, *args, **kwargs):
        return checkpoint(fn, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return Candidate.from_function(run, name="forgets-dropout")


def _on_vectors(effect) -> Candidate:
    def run(fn, *args, **kwargs):
        if "dropout" in fn.__code__.co_names:
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
    assert (caught.programs, caught.invalid, caught.groups) == (60, 0, [])


def test_a_fault_is_found_and_shrunk_to_what_it_needs(ask):
    caught = hunt(ask(_forgets_dropout()), examples=200, start=1, seconds=60)
    faults = caught.faults()
    assert faults
    randoms = {
        "dropout",
        "dropout-in-place",
        "dropout-again",
        "alpha-dropout",
        "noise",
        "rrelu",
        "read-twice",
    }
    assert all(group.cause & randoms for group in faults)
    assert min(len(group.program.step) for group in faults) <= 16


def test_a_fault_of_layout_is_found(ask):
    caught = hunt(ask(batches_of_views()), examples=500, start=2, seconds=60)
    assert "a gradient differs" in {group.difference.aspect for group in caught.faults()}


@pytest.mark.parametrize(
    ("effect", "aspect"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "the process dies by SIGSEGV"),
        (lambda: os._exit(3), "the process dies with exit code 3"),
        (lambda: time.sleep(60), "the program hangs"),
    ],
)
def test_a_program_that_takes_the_process_with_it_is_a_difference(ask, effect, aspect):
    worker = ask(_on_vectors(effect), seconds=2.0)

    def choose(options):
        return "dropout" if "dropout" in options else options[0]

    found = worker(make_program(choose)).difference
    assert found is not None
    assert found.aspect == aspect
    assert worker(make_program(lambda options: options[0])).difference is None
