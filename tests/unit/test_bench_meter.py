"""What the benchmark measures of one step, on the CPU, where memory is exact."""

from __future__ import annotations

import pytest
import torch

from ckpt_conformance.bench.meter import measure_memory, measure_times, measure_work
from ckpt_conformance.bench.workloads import Size, make_workload
from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.catalog.reference import reference_discard
from ckpt_conformance.catalog.torch_checkpoint import NONREENTRANT

SIZE = Size(layers=3, hidden=32, sequence=64)
WIDE = 64 * 4 * 32 * 4
"""Bytes of what a region gives its consumer."""


@pytest.fixture
def workload():
    return make_workload("mlp", SIZE, torch.device("cpu"))


def test_kept_bytes_are_the_activations_between_forward_and_backward(workload):
    plain, torch_own, discarding = (
        measure_memory(workload, candidate) for candidate in (PLAIN, NONREENTRANT, reference_discard())
    )
    assert torch_own.kept < plain.kept
    # each consumer saves the region's output; discarding frees all three, and keeps random states
    assert 3 * WIDE - 4 * 5056 <= torch_own.kept - discarding.kept <= 3 * WIDE


def test_the_peak_is_above_what_is_kept_and_nothing_is_left(workload):
    memory = measure_memory(workload, NONREENTRANT)
    assert memory.peak > memory.kept
    assert memory.floor == 0


def test_gradients_are_freed_after_each_measurement(workload):
    measure_memory(workload, PLAIN)
    measure_times(workload, PLAIN)
    measure_work(workload, PLAIN)
    assert all(parameter.grad is None for layer in workload.layers for parameter in layer.parameters())


def test_region_runs_and_operators_are_counted(workload):
    plain, found = measure_work(workload, PLAIN), measure_work(workload, NONREENTRANT)
    assert plain.region_runs == 3
    assert found.region_runs == 6
    assert found.kernels > plain.kernels


def test_the_step_is_forward_and_backward(workload):
    times = measure_times(workload, PLAIN)
    assert times.step == times.forward + times.backward
    assert times.forward > 0
