"""What programs contain besides operations: each part shows its fault, and right implementations pass it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from ckpt_conformance.candidate import Candidate, Style
from ckpt_conformance.fuzz import blocks
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import SILENT
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.worker import Worker
from ckpt_conformance.resolve import resolve
from fixtures.miniatures import (
    autocast,
    engine,
    engine_derivatives,
    errors,
    modules,
    odd_recompute,
    recompute,
    retention,
    retention_growth,
    rng,
    state,
)
from fixtures.miniatures.bases import Discarding, Hooks, Reentrant

PARTS = [
    ("module", modules.unfreezes),
    ("module-evaluates", modules.trains_in_recompute),
    ("module-factor", modules.bypasses_call),
    ("module-norm", modules.counts_in_recompute),
    ("module-norm", modules.promises_one_count),
    ("module-weight", modules.reduces_per_module),
    ("module-buffer", modules.frees_constants),
    ("module-in-turns", modules.latest_state),
    ("default-dtype", state.default_dtype_is_lost),
    ("device-context", state.device_context_is_lost),
    ("default-device", state.enters_the_device_context_again),
    ("function-mode", state.function_modes_are_lost),
    ("dispatch-mode", state.dispatch_modes_are_lost),
    ("cast-cache", autocast.cache_flag_is_lost),
    ("region-under-inference-mode", state.saves_inputs_in_inference_mode),
    ("plan-into", engine.replaces_gradients),
    ("plan-thread", engine_derivatives.keeps_regions_in_a_thread_local),
    ("plan-elsewhere", engine_derivatives.set_up_in_the_main_thread_alone),
    ("second-run-raises", errors.makes_recompute_errors_anew),
    ("second-run-raises", rng.puts_back_only_after_success),
    ("second-run-raises", retention.remembers_the_recompute_exception),
    ("second-run-dtype", recompute.compares_no_forms),
    ("second-run-shape", recompute.cuts_outputs_to_size),
    ("second-run-fewer", recompute.fills_missing_places),
    ("second-run-strides", recompute.shares_memory_of_other_strides),
    ("caches-a-tensor", retention.hooks_of_the_recompute_reach_the_region),
    ("caches-a-tensor", retention_growth.keeps_gradients_of_detached_inputs),
    ("caches-a-tensor", retention_growth.clears_the_first_gradient),
    ("hooks-on-a-leaf", engine.registers_hooks_again),
    ("call-generator", rng.positional_generators_only),
    ("leaves-autocast", autocast.blocks_inside_are_lost),
]

RIGHT = {
    Style.FUNCTION: [
        Candidate.from_function(base, name=type(base).__name__) for base in (Hooks(), Reentrant())
    ],
    Style.DISCARDING: [Candidate.from_discarding(Discarding, name="discarding")],
}
"""The bases that the miniatures vary."""


def _programs(feature: str) -> Iterator[Program]:
    made = (make_program(random.Random(seed).choice) for seed in itertools.count())
    return (program for program in made if feature in program.features)


@pytest.fixture
def ask():
    workers = []

    def make(candidate):
        workers.append(Worker(lambda: candidate))
        return workers[-1]

    yield make
    for worker in reversed(workers):  # a later child holds the earlier ones' pipes
        worker.close()


@pytest.mark.parametrize(("feature", "wrong"), PARTS)
def test_a_part_shows_the_fault_that_it_is_there_for(ask, feature, wrong):
    worker, rights = ask(wrong()), [ask(right) for right in RIGHT[wrong().style]]

    def shows(program):
        return worker(program).difference and not any(right(program).difference for right in rights)

    assert any(shows(program) for program in itertools.islice(_programs(feature), 60))


def test_a_wrong_gradient_of_a_second_run_that_differs_is_called_so(ask):
    worker = ask(recompute.compares_no_forms())
    answers = [worker(program) for program in itertools.islice(_programs("second-run-dtype"), 20)]
    told = {answer.difference.aspect for answer in answers if answer.difference}
    assert SILENT in told
    assert "hooks are called another number of times" not in told


@pytest.mark.parametrize("name", ["reference", "reference-discard"])
@pytest.mark.parametrize("feature", sorted({feature for feature, _ in PARTS}))
def test_the_references_show_no_difference_in_a_part(ask, feature, name):
    worker = ask(resolve(name))
    for program in itertools.islice(_programs(feature), 4):
        answer = worker(program)
        assert (answer.useless, answer.difference) == ("", None), program.source()


def test_a_recompute_in_another_thread_is_no_difference(ask):
    worker = ask(odd_recompute.recomputes_in_another_thread())
    assert not any(worker(program).difference for program in itertools.islice(_programs("nested"), 20))


@pytest.mark.parametrize("use", sorted(blocks.USES))
def test_what_a_region_does_with_its_module_gives_a_tensor_of_its_own(use):
    # a hook on the caller's tensor would be set once more by the recompute
    given = {"x": torch.ones(2), "self": SimpleNamespace(training=False, factor=1), "F": torch.nn.functional}
    assert eval(blocks.USES[use].format("x"), given) is not given["x"]
