import gc
import warnings
from datetime import date

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from ckpt_conformance.instruments.growth import Trend, judge_growth
from ckpt_conformance.leaks import Kind, LeakError, LeakReport, Status, leak_guard
from ckpt_conformance.leaks.baseline import BaselineError, baseline_entry, load_baseline
from ckpt_conformance.leaks.text import as_text
from ckpt_conformance.leaks.unexplained import unexplained
from fixtures.leaks.seeded import (
    BENCH,
    every_third_step,
    graph_of_the_previous_step,
    keep_in_a_thread_local,
    keep_losses,
    module_stashes,
)


@pytest.fixture(autouse=True)
def _empty_bench():
    BENCH.reset()
    yield
    BENCH.reset()
    gc.collect()


def watch(step, **options):
    """Run a step under a guard; the guard, for its report."""
    guard = leak_guard(**options)
    with guard as steps:
        for _ in steps:
            step()
    return guard


def leak_of(step, **options):
    """The largest leak that the guard names for a step."""
    with pytest.raises(LeakError) as raised:
        watch(step, **options)
    return raised.value.report.leaks[0]


def test_many_objects_of_one_holder_are_one_leak():
    with pytest.raises(LeakError) as raised:
        watch(keep_losses)
    assert len(raised.value.report.leaks) == 1
    # the loss, the exponential and the factor 2 that the product saved
    assert raised.value.report.leaks[0].objects == 9
    assert raised.value.report.leaks[0].born == (3, 4, 5)


def test_the_bytes_of_a_step_are_told_exactly():
    with pytest.raises(LeakError, match="every step keeps 64 bytes more") as raised:
        watch(keep_in_a_thread_local)
    assert raised.value.report.per_step == 64


def test_where_the_steps_are_too_few_for_a_third_step_leak_a_note_says_so():
    guard = watch(every_third_step, steps=8)
    assert guard.report.growth["bytes"].trend is Trend.TOO_SHORT
    assert "run more steps" in guard.report.notes[0]


def test_a_training_loop_with_adam_and_checkpoint_is_no_leak():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
    optimizer = torch.optim.Adam(model.parameters())
    with leak_guard() as steps:
        for _ in steps:
            optimizer.zero_grad()
            loss = checkpoint(model, torch.ones(4, 8), use_reentrant=False).sum()
            loss.backward()
            optimizer.step()


def test_a_lazy_buffer_of_the_first_steps_is_no_leak():
    with leak_guard() as steps:
        for number in steps:
            if number < 2:
                BENCH.leaves.append(torch.ones(16))


def test_a_known_leak_does_not_raise_and_a_gone_one_is_named(tmp_path):
    leak = leak_of(keep_losses)
    BENCH.losses.clear()
    entries = f'{baseline_entry(leak)}\n[[leak]]\nfingerprint = "abc"\nreason = "old"\n'
    known = tmp_path / "leaks.toml"
    known.write_text(entries.replace('reason = ""', 'reason = "for the plot"'))
    guard = watch(keep_losses, baseline=known)
    assert [(one.status, one.reason) for one in guard.report.leaks] == [(Status.KNOWN, "for the plot")]
    assert guard.report.gone == ("abc",)


def test_an_expired_entry_of_the_baseline_knows_nothing(tmp_path):
    leak = leak_of(keep_losses)
    known = tmp_path / "leaks.toml"
    known.write_text(f'[[leak]]\nfingerprint = "{leak.fingerprint}"\nreason = "r"\nexpires = 2020-01-31\n')
    assert leak_of(keep_losses, baseline=known).status is Status.NEW
    assert load_baseline(known)[0].expires == date(2020, 1, 31)


@pytest.mark.parametrize(
    "text", ["[[leak]]\nreason = 'x'", "[[leak]]\nfingerprint='a'\nreason='b'\nx=1", "]["]
)
def test_a_faulty_baseline_is_refused_with_its_name(tmp_path, text):
    path = tmp_path / "leaks.toml"
    path.write_text(text)
    with pytest.raises(BaselineError, match=r"leaks\.toml"):
        leak_guard(baseline=path)


def test_the_report_is_the_same_after_a_round_through_plain_data():
    with pytest.raises(LeakError) as raised:
        watch(keep_losses)
    report = raised.value.report
    assert LeakReport.from_data(report.to_data()) == report


def test_an_exception_of_the_step_passes_through_and_the_collector_is_as_before():
    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        watch(fail)
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_too_few_steps_are_an_error_and_no_pass():
    def stop_early():
        with leak_guard() as steps:
            for number in steps:
                if number:
                    break

    with pytest.raises(RuntimeError, match="saw 1 steps"):
        stop_early()
    with pytest.raises(ValueError, match="warm-up"):
        leak_guard(steps=3, warmup=2)


def test_no_warning_comes_of_looking():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leak_of(module_stashes)


def grow_in_place():
    if not hasattr(BENCH, "buffer"):
        BENCH.buffer = torch.zeros(16)
    BENCH.buffer.data = torch.cat([BENCH.buffer.data, torch.ones(1000)])


def test_growth_that_no_new_tensor_stands_for_has_a_fingerprint_of_its_amount_and_pattern():
    first = leak_of(grow_in_place)
    BENCH.reset()
    second = leak_of(grow_in_place)
    assert (first.kind, first.bytes, first.objects) == (Kind.NO_OBJECT, 16000, 0)
    assert first.holder == "bytes on all: 2048 to 4096 a step, growing"
    assert first.fingerprint == second.fingerprint == "e7f264c7f836"


def growth_of(**levels):
    return {name: judge_growth(series, 2) for name, series in levels.items()}


def test_what_the_allocator_has_beyond_the_tensors_is_a_leak_of_its_own():
    growth = growth_of(bytes=[0, 0, 64, 128, 192], allocated=[0, 0, 5064, 10128, 15192])
    (leak,) = unexplained(growth, "cuda:1", found=True)
    assert (leak.kind, leak.bytes) == (Kind.NO_OBJECT, 15000)
    assert leak.holder == "allocated on cuda: 4096 to 8192 a step, growing"
    (slightly_more,) = unexplained(
        growth_of(bytes=[0] * 5, allocated=[0, 0, 5100, 10200, 15300]), "cuda:0", found=False
    )
    assert slightly_more.fingerprint == leak.fingerprint
    (larger,) = unexplained(
        growth_of(bytes=[0] * 5, allocated=[0, 0, 9000, 18000, 27000]), "cuda", found=False
    )
    assert larger.fingerprint != leak.fingerprint


def test_what_the_found_leaks_explain_is_told_once():
    growth = growth_of(bytes=[0, 0, 640, 1280], allocated=[0, 0, 1024, 2048])
    assert unexplained(growth, "cuda", found=True) == ()


def test_the_graph_of_the_previous_step_is_late_and_raises_nothing():
    report = watch(graph_of_the_previous_step).report
    (leak,) = report.leaks
    assert report.new == ()
    assert leak.born == (6,)
    assert leak.birth.operation == "aten.exp.default"
    assert leak.remedies[-1].freed == leak.bytes == 256 * 16 * 4
    assert as_text(report).startswith(
        "no leak in 6 steps (2 of warm-up); late: 16384 bytes of each step are freed"
    )


def test_a_loss_that_lives_until_the_next_one_is_told_as_too_little_to_look_into():
    BENCH.leaves.append(torch.ones(1000, requires_grad=True))
    guard = leak_guard()
    with guard as steps:
        for _ in steps:
            loss = (BENCH.leaves[0] * 2).sum()
            loss.backward()
    assert guard.report.leaks == ()
    assert any(told.startswith("late: 4 bytes of a step's graph") for told in guard.report.blind)


def test_gradients_that_live_until_the_next_step_sets_them_to_none_are_not_late():
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = leak_guard()
    with guard as steps:
        for _ in steps:
            optimizer.zero_grad()
            loss = model(torch.ones(4, 64)).sum()
            loss.backward()
            optimizer.step()
    assert guard.report.leaks == ()
    assert any(told.startswith("late: 4 bytes of a step's graph") for told in guard.report.blind)


def test_the_gradient_of_a_leaf_that_the_step_made_is_late_with_it():
    def step():
        leaf = BENCH.weight.detach().expand(256, 16).clone().requires_grad_()
        leaf.exp().sum().backward()
        BENCH.previous.append(leaf)

    (leak,) = watch(step).report.leaks
    assert (leak.kind, leak.holder.rpartition(".")[2]) == (Kind.LATE, "previous[0]")
    assert (leak.objects, leak.bytes) == (2, 2 * 256 * 16 * 4)


def test_a_graph_that_two_steps_share_is_no_late_one():
    guard = leak_guard(steps=8)
    with guard as steps:
        for _ in steps:
            BENCH.recent.append((BENCH.weight * torch.ones(256, 16)).exp())
    assert guard.report.leaks == ()


def keep_many_shapes():
    BENCH.leaves.extend(torch.ones(size) for size in range(1, 31))


def test_the_report_says_how_many_of_the_survivors_were_traced():
    with pytest.raises(LeakError) as raised:
        watch(keep_many_shapes)
    # 30 sizes in 3 steps; the 6 smallest looks are left, (1 + ... + 6) * 4 bytes in each step
    told = "24 of 90 surviving tensors were traced, one for each look for the largest 24 of 30 looks"
    assert raised.value.report.blind[0] == f"{told}; 18 tensors on 252 bytes were left"
