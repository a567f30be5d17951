"""Census, guard and traces on a CUDA device; skipped where there is none."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch

from ckpt_conformance.instruments.census import take_census
from ckpt_conformance.instruments.trace.fingerprint import normalized
from ckpt_conformance.leaks import Kind, LeakError, leak_guard
from ckpt_conformance.report.leaks.html import render_leak_html
from fixtures.leaks.seeded import BENCH, SEEDED, bounded_cache, running_mean

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _empty_bench():
    with torch.device("cuda"):
        BENCH.reset()
    yield
    BENCH.reset()
    gc.collect()


def report_on(step, steps=6, **options):
    guard = leak_guard(steps=steps, device="cuda", **options)
    with contextlib.suppress(LeakError), torch.device("cuda"), guard as numbers:
        for _ in numbers:
            step()
    return guard.report


def test_the_census_counts_the_device_alone_and_has_the_allocators_level():
    before = take_census("cuda")
    kept = torch.empty(MIB, dtype=torch.uint8, device="cuda"), torch.empty(MIB, dtype=torch.uint8)
    after = take_census("cuda")
    assert after.bytes - before.bytes == after.allocated - before.allocated == MIB
    assert after.tensors - before.tensors == 1
    del kept


@pytest.mark.parametrize("seeded", SEEDED, ids=lambda seeded: seeded.step.__name__)
def test_a_seeded_leak_has_the_kind_holder_and_fingerprint_of_the_cpu(seeded):
    report = report_on(seeded.step, seeded.steps)
    leak = report.leaks[0]
    assert (leak.kind, leak.root) == (seeded.kind, seeded.root)
    assert normalized(leak.holder).endswith(seeded.holder)
    assert leak.fingerprint == seeded.fingerprint
    assert bool(report.new) == (seeded.kind is not Kind.LATE)


@pytest.mark.parametrize("step", [bounded_cache, running_mean])
def test_what_is_kept_for_a_while_is_no_leak(step):
    assert report_on(step, 8).leaks == ()


def test_blocks_that_only_the_allocator_knows_are_bytes_without_an_object():
    blocks = []
    report = report_on(lambda: blocks.append(torch.cuda.caching_allocator_alloc(MIB)))
    for block in blocks:
        torch.cuda.caching_allocator_delete(block)
    (leak,) = report.leaks
    assert (leak.kind, leak.bytes) == (Kind.NO_OBJECT, 4 * MIB)
    assert leak.holder == "allocated on cuda: 1048576 to 2097152 a step, growing"
    assert report.per_step == MIB
    assert leak.holder in render_leak_html(report)


def test_a_training_loop_that_keeps_nothing_is_no_leak():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad()
        model(torch.ones(8, 64)).square().mean().backward()
        optimizer.step()

    report = report_on(step)
    assert report.leaks == ()
    assert not report.growth["allocated"].leaks


def test_no_remedy_is_tried_in_a_child_that_would_share_the_device():
    report = report_on(SEEDED[0].step)
    assert {one.freed for one in report.leaks[0].remedies} == {None}
