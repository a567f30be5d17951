"""A candidate that misbehaves costs one finding, and the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.conftest import Ended, Shell

# each fault shows in one requirement; the candidate finds out on the stack which one is running
CANDIDATE = """
import ctypes, os, sys, time
from torch.utils.checkpoint import checkpoint


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


def die(number):
    os.kill(os.getpid(), number)


def hang_in_python():
    while True:
        try:
            time.sleep(0.1)
        except BaseException:
            pass


def leave_state_behind():
    import torch
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    os.chdir("/")
    os.environ["CKPT_LEFT_BEHIND"] = "1"


def recurse():
    recurse()


def raising(error):
    raise error


FAULTS = {
    "reshape_saved_by_consumer": lambda: ctypes.string_at(0),
    "split_saved_by_consumer": lambda: os.abort(),
    "transpose_saved_by_consumer": lambda: os._exit(0),
    "offset_view_saved_by_consumer": lambda: sys.exit(0),
    "view_of_view_saved_by_consumer": hang_in_python,
    "strided_view_saved_by_consumer": lambda: ctypes.PyDLL(None).sleep(1000),
    "expanded_view_saved_by_consumer": lambda: raising(KeyboardInterrupt()),
    "enabled": lambda: raising(Mute()),
    "dtype": recurse,
    "off_in_the_forward": leave_state_behind,
    "cache_flag": lambda: print("noise " * 500_000),
    "disabled_inside_the_region": lambda: os.write(1, bytes(range(256)) * 10),
}


def faulty(function, *args, **kwargs):
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in FAULTS and "standard" in frame.f_code.co_filename:
            FAULTS[frame.f_code.co_name]()
        frame = frame.f_back
    return checkpoint(function, *args, use_reentrant=False, **kwargs)
"""

LIMIT = 5.0


@pytest.fixture(scope="module")
def done(module_shell: Callable[[str], Shell]) -> tuple[Ended, dict[str, dict[str, Any]]]:
    shell = module_shell("misbehaving")
    shell.write("bad.py", CANDIDATE)
    arguments = ["--select", "views", "autocast", "--timeout", str(LIMIT), "--report", "out"]
    ended = shell.run("run", "bad:faulty", *arguments)
    assert (shell.folder / "out" / "report.json").exists(), ended.err
    return ended, shell.findings()


@pytest.mark.parametrize(
    ("requirement", "verdict", "said"),
    [
        ("views/reshape-saved-by-consumer", "crashed", "Fatal Python error: Segmentation fault"),
        ("views/split-saved-by-consumer", "crashed", "Fatal Python error: Aborted"),
        (
            "views/transpose-saved-by-consumer",
            "crashed",
            "the process ended without a word, as os._exit() does",
        ),
        ("views/offset-view-saved-by-consumer", "failed", "SystemExit: 0"),
        ("views/view-of-view-saved-by-consumer", "hung", "no end after 5 s; the stacks tell where"),
        ("views/strided-view-saved-by-consumer", "hung", "no end after 5 s; the stacks tell where"),
        ("views/expanded-view-saved-by-consumer", "failed", "KeyboardInterrupt"),
        ("autocast/enabled", "failed", "Mute: (its message cannot be had: str() raised ValueError)"),
        ("autocast/dtype", "failed", "RecursionError: maximum recursion depth exceeded"),
        ("autocast/cache-flag", "passed", ""),
        ("autocast/disabled-inside-the-region", "passed", ""),
    ],
)
def test_each_fault_is_one_finding(done: Any, requirement: str, verdict: str, said: str) -> None:
    finding = done[1][requirement]
    assert (finding["verdict"], finding["found"]) == (verdict, said)


def test_everything_else_passes(done: Any) -> None:
    faulty = {
        "views/reshape-saved-by-consumer",
        "views/split-saved-by-consumer",
        "views/transpose-saved-by-consumer",
        "views/offset-view-saved-by-consumer",
        "views/view-of-view-saved-by-consumer",
        "views/strided-view-saved-by-consumer",
        "views/expanded-view-saved-by-consumer",
        "autocast/enabled",
        "autocast/dtype",
        "autocast/off-in-the-forward",
    }
    others = {id_: found["verdict"] for id_, found in done[1].items() if id_ not in faulty}
    assert set(others.values()) == {"passed"}
    assert len(others) > 10


def test_the_stack_of_a_hang_leads_to_the_candidate(done: Any) -> None:
    trace = done[1]["views/strided-view-saved-by-consumer"]["trace"]
    frames = [line for line in trace if "File " in line]
    assert "bad.py" in frames[0]
    assert not [line for line in trace if "_pytest" in line or "execnet" in line]


def test_it_does_not_conform(done: Any) -> None:
    assert done[0].code == 1
    assert "conformance: partial" in done[0].out
    assert "Traceback" not in done[0].err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import ctypes; ctypes.string_at(0)", "importing or making it crashed the process (signal 11)"),
        ("import os; os._exit(0)", "importing or making it ended the process with exit code 0"),
        ("import sys; sys.exit(0)", "importing dead raised SystemExit: 0"),
    ],
)
def test_a_death_at_import_is_one_line(shell: Shell, source: str, said: str) -> None:
    shell.write("dead.py", source)
    ended = shell.run("run", "dead:checkpoint", "--report", "out")
    assert ended.code == 2
    assert ended.err.startswith(f"ckpt-conformance: error: candidate 'dead:checkpoint': {said}")
    assert ended.err.count("\n") == 1
    assert not (shell.folder / "out").exists()
