"""Each seeded leak is named with its kind, holder and recorded fingerprint; what is no leak is left alone."""

from __future__ import annotations

import contextlib
import gc

import pytest

from ckpt_conformance.instruments.trace.fingerprint import normalized
from ckpt_conformance.leaks import Kind, LeakError, leak_guard
from fixtures.leaks.seeded import BENCH, SEEDED, Seeded, bounded_cache, running_mean


@pytest.fixture(autouse=True)
def _empty_bench():
    BENCH.reset()
    yield
    BENCH.reset()
    gc.collect()


def report_on(step, steps=6):
    guard = leak_guard(steps=steps)
    with contextlib.suppress(LeakError), guard as numbers:
        for _ in numbers:
            step()
    return guard.report


@pytest.mark.parametrize("seeded", SEEDED, ids=lambda seeded: seeded.step.__name__)
def test_a_seeded_leak_is_named_with_its_kind_holder_and_fingerprint(seeded: Seeded):
    report = report_on(seeded.step, seeded.steps)
    (leak,) = report.leaks
    assert (leak.kind, leak.root) == (seeded.kind, seeded.root)
    assert normalized(leak.holder).endswith(seeded.holder)
    assert leak.fingerprint == seeded.fingerprint
    assert bool(report.new) == (seeded.kind is not Kind.LATE)


def test_every_seeded_leak_with_another_holder_has_another_fingerprint():
    holders = {(seeded.kind, seeded.holder) for seeded in SEEDED}
    assert len({seeded.fingerprint for seeded in SEEDED}) == len(holders)


@pytest.mark.parametrize("step", [bounded_cache, running_mean])
def test_what_is_kept_for_a_while_is_no_leak(step):
    assert report_on(step, 8).leaks == ()
