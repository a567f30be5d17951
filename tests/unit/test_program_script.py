"""A program's script runs alone, for every way in which a program can differ."""

from __future__ import annotations

import dataclasses
import gc
import re
import signal
import subprocess
import sys

import pytest

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.hunt import hunt
from ckpt_conformance.fuzz.oracle import Difference
from ckpt_conformance.fuzz.program import PLANS, Program
from ckpt_conformance.fuzz.worker import Worker, compare
from ckpt_conformance.report.program_script import program_script
from ckpt_conformance.resolve import resolve


def _defined_there(value):
    return getattr(value, "__module__", "") == prelude.__name__


_MODULE = '''
import os, signal, time
import torch

def checkpoint(fn, *args, **kwargs):
    """Gives a tenth more."""
    return fn(*args, **kwargs) * 1.1

def right(fn, *args, **kwargs):
    return fn(*args, **kwargs)

def forgets_a_hook(fn, *args, **kwargs):
    output = fn(*args, **kwargs)
    args[0]._backward_hooks.clear()
    return output

def takes_its_tuple_apart(fn, *args, **kwargs):
    output = fn(*args, **kwargs)
    return [*output] if type(output) is tuple else output

class KeepsResults:
    kept = []

    def checkpoint(self, fn, *args, **kwargs):
        return fn(*args, **kwargs)

    def discard_output_and_register_recompute(self, result):
        self.kept.append(result)

def hangs(fn, *args, **kwargs):
    time.sleep(60)

def dies(fn, *args, **kwargs):
    os.kill(os.getpid(), signal.SIGSEGV)

def keeps(fn, *args, _kept=[], **kwargs):
    _kept.append(fn(*args, **kwargs))
    return _kept[-1]
'''


@pytest.fixture
def script(tmp_path, monkeypatch, capsys):
    (tmp_path / "tenth_more.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def write_and_run(program, aspect, name="checkpoint"):
        found = Difference(aspect, "in this program")
        module = __import__("tenth_more")
        make = Candidate.from_discarding if name == "KeepsResults" else Candidate.from_function
        candidate = make(getattr(module, name), name=name)
        text = program_script(program, found, candidate, target=f"tenth_more:{name}")
        assert "ckpt_conformance" not in text
        assert text.count("\n") <= 60
        with pytest.raises(SystemExit) as ended:
            exec(compile(text, "script", "exec"), {})  # a process for each takes longer than all of them
        return ended.value.code, capsys.readouterr().out.splitlines()

    yield write_and_run
    gc.enable()
    sys.modules.pop("tenth_more", None)


def _program(*, plan="once", autocast="", packed="v1", taken="o = out", first=()):
    step = (
        *first, "def region(a):", "    v1 = a.sin()", "    note(v1)", f"    return {packed}",
        "def consumer(out):", f"    {taken}", "    met = meet(o.sin())", "    return met",
        "result = run(region, (x,), {}, consumer)",
    )  # fmt: skip
    return Program(("x = leaf(4, 6, seed=0)",), ("x",), step, plan, autocast, 1, frozenset())


_SILENT = ("def silent(x):", "    note(x.sin())", "run(silent, (x,), {}, lambda out: out)")


@pytest.mark.parametrize("plan", PLANS)
def test_every_plan_of_backward_has_a_script_that_shows_the_difference(script, plan):
    code, lines = script(_program(plan=plan), "a result differs")
    assert (code, lines[-1]) == (True, "reproduced")
    assert lines[0].startswith("result: torch.float64 [")


def test_a_region_that_does_nothing_but_mark_what_it_made_stays(script):
    nothing = ("def silent(x):", "    note(x)", "run(silent, (x,), {}, lambda out: out)")
    assert script(_program(first=nothing), "a result differs", "right") == (False, ["not reproduced"])


@pytest.mark.parametrize("autocast", ["", "float16", "backward"])
def test_a_script_says_that_nothing_differs(script, autocast):
    assert script(_program(autocast=autocast), "a result differs", "right") == (False, ["not reproduced"])


def test_the_hooks_that_were_called_are_printed(script):
    hooked = _program(first=("x.register_hook(hear('hook on x'))",))
    code, lines = script(hooked, "hooks are called another number of times", "forgets_a_hook")
    assert (code, lines) == (True, ["hooks called: ['hook on x'] became []", "reproduced"])


def test_the_form_of_an_output_is_printed(script):
    packed = _program(packed="(v1,)", taken="o, = out")
    code, lines = script(packed, "a region gives something else", "takes_its_tuple_apart")
    assert code is True
    assert lines[0] == (
        "outputs: [\"('torch.float32(4, 6)',)\"] became [\"['torch.float32(4, 6)']\"]"
    )  # fmt: skip


@pytest.mark.parametrize("aspect", ["memory stays alive", "memory stays alive after backward"])
def test_the_storages_that_stay_alive_are_counted(script, aspect):
    code, lines = script(_program(), aspect, "keeps")
    told = {"memory stays alive": "storages alive: 0 became 1"}.get(aspect, "storages alive: [1] became [2]")
    assert (code, lines) == (True, [told, "reproduced"])


_KEPT = "o = out; keep('o', o)"


@pytest.mark.parametrize(
    "program",
    [
        *(_program(plan=plan, first=_SILENT) for plan in PLANS if plan != "spent"),
        _program(plan="none", taken=_KEPT),
    ],
)
def test_a_script_counts_the_storages_that_its_title_says(script, program):
    import tenth_more

    found = compare(program, Candidate.from_function(tenth_more.keeps, name="keeps")).difference
    assert found is not None
    got, want = re.findall(r"\d+", found.detail)
    _, lines = script(program, found.aspect, "keeps")
    assert re.fullmatch(rf"storages alive: \[?{want}\b.* became \[?{got}\b.*", lines[0])


def test_storages_that_no_region_marks_are_counted(script):
    step = tuple(line for line in _program().step if "note" not in line)
    unmarked = dataclasses.replace(_program(), step=step)
    code, lines = script(unmarked, "memory stays alive", "KeepsResults")
    assert (code, lines) == (True, ["storages alive: 0 became 1", "reproduced"])


@pytest.mark.parametrize("name", [name for name, value in vars(prelude).items() if _defined_there(value)])
def test_what_a_program_uses_of_the_prelude_is_there(script, name):
    code, _ = script(_program(first=(f"used = {name}",)), "a result differs")
    assert code is True


def test_a_long_program_is_folded(script):
    lines = tuple(f"v{number} = x.sin()" for number in range(60))
    assert script(_program(first=lines), "a result differs")[0] is True


def test_on_cuda_its_generator_is_looked_at():
    found = Difference("the generator is left elsewhere", "its state differs")
    text = program_script(
        _program(), found, Candidate.from_function(print, name="print"), target="print", device="cuda"
    )
    compile(text, "script", "exec")
    assert "torch.get_rng_state().sum(), torch.cuda.get_rng_state().sum()" in text
    assert "torch.use_deterministic_algorithms(True)" in text


@pytest.mark.parametrize(
    ("name", "aspect", "code", "told"),
    [
        ("hangs", "the program hangs", 1, "Timeout (0:00:01)!"),
        ("dies", "the process dies by SIGSEGV", -signal.SIGSEGV, ""),
    ],
)
def test_a_process_that_ends_or_does_not_is_seen(tmp_path, script, name, aspect, code, told):
    module = __import__("tenth_more")
    candidate = Candidate.from_function(getattr(module, name), name=name)
    text = program_script(_program(), Difference(aspect, ""), candidate, target=f"tenth_more:{name}")
    (tmp_path / "script.py").write_text(text.replace("dump_traceback_later(10", "dump_traceback_later(1"))
    ran = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == code
    assert told in ran.stderr


def test_every_script_of_a_hunt_shows_its_difference(capsys):
    candidate = resolve("torch-reentrant")
    worker = Worker(lambda: candidate)
    faults = hunt(worker, examples=60, start=7).faults()
    worker.close()
    assert len(faults) >= 3
    for group in faults:
        text = program_script(group.program, group.difference, candidate, target="torch-reentrant")
        assert text.count("\n") <= 60
        with pytest.raises(SystemExit) as ended:
            exec(compile(text, "script", "exec"), {})
        assert (ended.value.code, capsys.readouterr().out.splitlines()[-1]) == (True, "reproduced")


def test_a_gradient_that_is_retained_is_printed(script):
    kept = _program(taken="o = out; keep('o', o)")
    code, lines = script(kept, "a gradient differs")
    assert code is True
    assert any(line.startswith("gradient of o: torch.float32 [") for line in lines)


@pytest.mark.parametrize(
    ("make", "name", "call"),
    [
        (Candidate.from_function, "megatron", "random.checkpoint(fn, False, *args, **kwargs)"),
        (Candidate.from_discarding, "megatron-discard", "random.CheckpointWithoutOutput, fp8=None"),
    ],
)
def test_a_script_for_megatron_sets_it_up_by_itself(make, name, call):
    found = Difference("a gradient differs", "in this program")
    text = program_script(_program(), found, make(print, name=name), target=name)
    assert "ckpt_conformance" not in text
    assert call in text
    assert text.index("sys.modules.setdefault") < text.index(
        "from megatron.core.tensor_parallel import random"
    )
