"""The state ledger names what was left behind, and puts back what can be put back."""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ckpt_conformance.instruments.state import LASTING_PIECES, PIECES, capture, isolated
from ckpt_conformance.instruments.state_piece import Piece, safe_repr

KEPT_ALIVE: list[Any] = []


class FunctionMode(TorchFunctionMode):
    pass


class DispatchMode(TorchDispatchMode):
    pass


def left_open(context: Any) -> None:
    KEPT_ALIVE.append(context)
    context.__enter__()


def hooks_disabled() -> Any:
    return torch.autograd.graph.disable_saved_tensors_hooks("not here")


def hooks_pair() -> Any:
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def module_hook() -> None:
    torch.nn.modules.module.register_module_forward_hook(lambda *_: None)


def unload_module() -> None:
    del sys.modules["json.decoder"]


LEFT_BEHIND: dict[str, tuple[Callable[[], object], str]] = {
    "grad-mode": (lambda: torch.set_grad_enabled(False), "grad mode: True became False"),
    "inference-mode": (lambda: left_open(torch.inference_mode()), "inference mode: False became True"),
    "default-dtype": (
        lambda: torch.set_default_dtype(torch.float64), "default dtype: torch.float32 became torch.float64",
    ),
    "default-device": (
        lambda: torch.set_default_device("meta"), "torch function modes: [] became [DeviceContext(meta)]",
    ),
    "function-mode": (
        lambda: left_open(FunctionMode()), "torch function modes: [] became [FunctionMode]",
    ),
    "dispatch-mode": (
        lambda: left_open(DispatchMode()), "torch dispatch modes: [] became [DispatchMode]",
    ),
    "saved-tensor-hooks": (lambda: left_open(hooks_pair()), "saved-tensor hooks: 0 pairs became 1 pairs"),
    "hooks-disabled": (
        lambda: left_open(hooks_disabled()), "saved-tensor hooks: 0 pairs became 0 pairs, disabled",
    ),
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(True), "deterministic flags: deterministic changed",
    ),
    "autocast": (
        lambda: left_open(torch.autocast("cpu")),
        "autocast: cpu off with torch.bfloat16 became on with torch.bfloat16",
    ),
    "autocast-nesting": (
        lambda: left_open(torch.autocast("cpu")), "autocast nesting depth: 0 became 1",
    ),
    "autocast-cache": (
        lambda: torch.set_autocast_cache_enabled(False), "autocast cache flag: True became False",
    ),
    "anomaly": (
        lambda: torch.autograd.set_detect_anomaly(True),
        "anomaly mode: (False, True) became (True, True)",
    ),
    "forward-ad": (forward_ad.enter_dual_level, "forward-mode level: -1 became 0"),
    "module-hook": (module_hook, "module hooks: forward_hooks: 0 became 1"),
    "cpu-generator": (lambda: torch.rand(1), "CPU generator: moved"),
    "python-generator": (random.random, "Python's generator: moved"),
    "numpy-generator": (lambda: np.random.rand(), "numpy's generator: moved"),
    "patched-function": (lambda: setattr(torch, "relu", torch.sin), "functions: torch.relu replaced"),
    "unloaded-module": (unload_module, "loaded modules: json.decoder removed or replaced"),
    "excepthook": (
        lambda: setattr(sys, "excepthook", print), "interpreter hooks: sys.excepthook changed",
    ),
    "signal": (lambda: signal.signal(signal.SIGUSR1, print), "signal handlers: SIGUSR1 changed"),
    "timer": (lambda: signal.setitimer(signal.ITIMER_PROF, 1000), "timers: 1 started"),
    "profile": (lambda: sys.setprofile(lambda *_: None), "tracing: [nothing, nothing] became [nothing, "),
    "layer": (
        lambda: setattr(torch.nn.Linear, "forward", torch.nn.Identity.forward),
        "layers: torch.nn.modules.linear.Linear.forward replaced",
    ),
    "environment": (
        lambda: os.environ.update(CKPT_TEST="secret"), "environment: CKPT_TEST set",
    ),
    "recursion-limit": (lambda: sys.setrecursionlimit(4321), "4321"),
    "collector": (gc.disable, "garbage collector: (True, "),
    "warning-filters": (
        lambda: warnings.filters.insert(0, ("ignore", None, UserWarning, None, 0)),  # type: ignore[attr-defined]
        "warning filters: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("disturb", "words"), LEFT_BEHIND.values(), ids=LEFT_BEHIND)
def test_what_is_left_behind_is_named_and_put_back(disturb: Callable[[], object], words: str) -> None:
    before = capture()
    with isolated() as leftovers:
        disturb()
    assert any(words in line for line in leftovers.differences), leftovers.differences
    assert leftovers.remaining == []
    assert before.differences() == []
    KEPT_ALIVE.clear()


def test_nothing_is_named_where_nothing_was_changed() -> None:
    with isolated() as leftovers:
        torch.ones(3, requires_grad=True).exp().sum().backward()
    assert (leftovers.differences, leftovers.remaining) == ([], [])


def test_the_working_directory_is_put_back(tmp_path: Path) -> None:
    here = Path.cwd()
    with isolated() as leftovers:
        os.chdir(tmp_path)
    assert Path.cwd() == here
    assert any(line.startswith("working directory: ") for line in leftovers.differences)


def test_a_secret_is_not_shown() -> None:
    with isolated() as leftovers:
        os.environ["CKPT_TEST"] = "secret"
    assert "secret" not in " ".join(leftovers.differences)


def test_a_thread_that_still_runs_is_named_and_remains() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="straggler")
    with isolated() as leftovers:
        thread.start()
    stop.set()
    thread.join()
    assert leftovers.remaining == ["threads: 1 left running (straggler)"]


def test_a_timer_that_ran_before_is_its_owners() -> None:
    signal.setitimer(signal.ITIMER_PROF, 1000)
    try:
        with isolated() as left:
            signal.setitimer(signal.ITIMER_PROF, 0)
        assert left.differences == []
        assert signal.getitimer(signal.ITIMER_PROF)[0] == 0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def test_a_thread_that_ended_is_no_difference() -> None:
    with isolated() as leftovers:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
    assert leftovers.differences == []


def test_state_is_put_back_after_a_keyboard_interrupt() -> None:
    def interrupted() -> None:
        with isolated():
            torch.set_default_dtype(torch.float64)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.get_default_dtype() is torch.float32


def test_the_generators_go_on_where_they_were() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with isolated():
        torch.rand(7)
    assert torch.equal(torch.rand(3), expected)


def test_modes_that_were_active_before_are_still_active_after_one_was_taken_off() -> None:
    with FunctionMode() as outer, FunctionMode() as inner:
        with isolated() as leftovers:
            torch._C._pop_torch_function_stack()
        stack = torch.overrides._get_current_function_mode_stack()
    assert stack == [outer, inner]
    assert leftovers.differences == [
        "torch function modes: [FunctionMode, FunctionMode] became [FunctionMode]"
    ]


def test_reading_leaves_a_stack_of_saved_tensor_hooks_as_it_is() -> None:
    packed: list[str] = []
    x = torch.ones(2, requires_grad=True)
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append("outer") or t, lambda t: t),
        torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append("inner") or t, lambda t: t),
    ):
        capture()
        x.exp()
    x.exp()
    assert packed == ["inner"]


def test_reading_is_seen_by_no_mode() -> None:
    class Strict(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise AssertionError(f"saw {func}")

    with Strict():
        state = capture()
        differences = state.differences()
    assert any(line.startswith("torch dispatch modes") for line in state.differences())
    assert differences == []


def test_a_piece_that_cannot_be_put_back_does_not_keep_the_others_from_it() -> None:
    def refuse(_value: object) -> None:
        raise OSError

    moving = iter(range(100))
    stubborn = Piece("stubborn", lambda: next(moving), refuse)
    with isolated((stubborn, *PIECES)) as leftovers:
        torch.set_default_dtype(torch.float64)
    assert torch.get_default_dtype() is torch.float32
    assert leftovers.remaining == ["stubborn: 0 became 2 (putting it back raised OSError)"]


def test_the_lasting_pieces_leave_the_generators_out() -> None:
    state = capture(LASTING_PIECES)
    torch.rand(1)
    random.random()
    assert state.differences() == []


def test_a_value_whose_repr_raises_is_named_by_its_type() -> None:
    class Rude:
        def __repr__(self) -> str:
            raise ValueError

    assert safe_repr(Rude()) == "<Rude>"


def test_a_repr_is_cut_short_and_keeps_no_control_characters() -> None:
    class Loud:
        def __repr__(self) -> str:
            return "\x1b[31m\n" + "x" * 1000

    assert safe_repr(Loud()) == "?[31m?" + "x" * 71 + "..."
