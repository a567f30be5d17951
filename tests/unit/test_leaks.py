import gc
import threading
import warnings
from datetime import date

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from ckpt_conformance.instruments.growth import Trend
from ckpt_conformance.leaks import Kind, LeakError, LeakReport, Status, leak_guard
from ckpt_conformance.leaks.baseline import BaselineError, baseline_entry, load_baseline


class Bench:
    """What seeded leaks keep things on."""


BENCH = Bench()


@pytest.fixture(autouse=True)
def _empty_bench():
    vars(BENCH).clear()
    BENCH.kept = []
    BENCH.local = threading.local()
    BENCH.weight = torch.ones(16, requires_grad=True)
    yield
    vars(BENCH).clear()
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


def keep_losses():
    BENCH.kept.append((BENCH.weight * 2).exp().sum())


def never_remove_a_hook():
    seen = torch.ones(16)
    BENCH.weight.register_hook(lambda gradient: gradient + seen)


def hook_on_own_output():
    output = (BENCH.weight * 2).exp()
    output.register_hook(lambda gradient: gradient * output)


class KeepsItsOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.output = x * 2
        return ctx.output

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def ctx_and_output():
    KeepsItsOutput.apply(BENCH.weight).sum().backward()
    BENCH.weight.grad = None


def saved_hook_keeps_output():
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        BENCH.weight.exp()


def registry_of_regions():
    batch = torch.ones(16)

    def recompute():
        return BENCH.weight * batch

    BENCH.kept.append(recompute)


def stash_graph_tensor():
    hidden = BENCH.weight * 2
    BENCH.kept.append(hidden)
    checkpoint(torch.exp, hidden, use_reentrant=False).sum().backward()
    BENCH.weight.grad = None


def grad_of_detached_leaf():
    leaf = BENCH.weight.detach().clone().requires_grad_()
    leaf.exp().sum().backward()
    BENCH.kept.append(leaf)


def keep_an_exception():
    batch = torch.ones(16)
    try:
        int(f"no number, {batch.dtype}")
    except ValueError as error:
        BENCH.kept.append(error)


def keep_in_a_thread_local():
    BENCH.local.__dict__.setdefault("batches", []).append(torch.ones(16))


def python_cycle():
    cycle = {"batch": torch.ones(16)}
    cycle["itself"] = cycle


SEEDED = [
    (keep_losses, Kind.HELD, ".kept[*]", "module"),
    (never_remove_a_hook, Kind.HELD, "._backward_hooks[*].__closure__['seen']", "module"),
    (
        hook_on_own_output,
        Kind.NATIVE_CYCLE,
        ".__closure__['output']._backward_hooks",
        "only native references",
    ),
    (ctx_and_output, Kind.PYTHON_CYCLE, "<KeepsItsOutputBackward>.output.grad_fn", "only native references"),
    (saved_hook_keeps_output, Kind.NATIVE_CYCLE, "_raw_saved_result.data.grad_fn", "only native references"),
    (registry_of_regions, Kind.HELD, ".kept[*].__closure__['batch']", "module"),
    (stash_graph_tensor, Kind.HELD, ".kept[*]", "module"),
    (grad_of_detached_leaf, Kind.GRAD_KEPT, ".kept[*]", "module"),
    (keep_an_exception, Kind.HELD, ".kept[*].__traceback__.tb_frame.f_locals['batch']", "module"),
    (keep_in_a_thread_local, Kind.HELD, ".local.batches[*]", "thread-local"),
    (python_cycle, Kind.PYTHON_CYCLE, "<dict>['itself']", "only native references"),
]


@pytest.mark.parametrize(
    ("step", "kind", "holder", "root"), SEEDED, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_seeded_leak_is_named_with_its_kind_and_holder(step, kind, holder, root):
    from ckpt_conformance.instruments.trace.fingerprint import normalized

    first, second = leak_of(step), leak_of(step)
    assert (first.kind, first.root) == (kind, root)
    assert normalized(first.holder).endswith(holder)
    assert first.fingerprint == second.fingerprint


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


def test_a_leak_at_every_third_step_is_found_where_the_steps_cover_three_of_them():
    leak = leak_of(every_third(), steps=14)
    assert leak.kind is Kind.HELD


def every_third():
    count = iter(range(100))

    def step():
        if next(count) % 3 == 2:
            BENCH.kept.append(torch.ones(16))

    return step


def test_where_the_steps_are_too_few_for_a_third_step_leak_a_note_says_so():
    guard = watch(every_third(), steps=8)
    assert guard.report.growth["bytes"].trend is Trend.TOO_SHORT
    assert "run more steps" in guard.report.notes[0]


def test_a_bounded_cache_is_no_leak():
    with leak_guard(steps=8) as steps:
        for number in steps:
            BENCH.kept = [*BENCH.kept, torch.ones(16)][-2:]
            assert number < 8


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
                BENCH.kept.append(torch.ones(16))


def test_a_known_leak_does_not_raise_and_a_gone_one_is_named(tmp_path):
    leak = leak_of(keep_losses)
    BENCH.kept.clear()
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
        leak_of(stash_graph_tensor)
