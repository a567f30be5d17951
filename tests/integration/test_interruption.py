"""Whatever ends a run early leaves the old report, or one that says that it is not whole, and no process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ckpt_conformance.report.storage import read_report
from ckpt_conformance.suite.process import can_be_read, read_process
from tests.integration.conftest import ROOT, Shell

pytestmark = pytest.mark.skipif(not can_be_read(), reason="looks for left processes in /proc")

# the first requirement goes through; the others wait in C for a long time, and hold the interpreter's lock
STUBBORN = """
import ctypes
from torch.utils.checkpoint import checkpoint
called = []
def stubborn(fn, *args, **kwargs):
    called.append(None)
    if len(called) > 3:
        ctypes.PyDLL(None).sleep(1000)
    return checkpoint(fn, *args, use_reentrant=False, **kwargs)
"""
RUN = ("-m", "ckpt_conformance", "run")
SELECT = ("--select", "views", "--report", "out")


@contextmanager
def started(shell: Shell, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, as a terminal gives it; nothing of it is left after the test."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=shell.folder,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{shell.folder}", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def first_verdict(running: subprocess.Popen[str]) -> None:
    """Wait until the run shows that a requirement is done."""
    assert running.stdout is not None
    while (mark := running.stdout.read(1)) not in {".", "F"}:
        if not mark:
            pytest.fail(running.communicate()[1])
        if mark == "d":
            running.stdout.readline()


def descendants(pid: int) -> set[int]:
    """The processes below one, by their numbers."""
    below = {
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    }
    return below.union(*(descendants(child) for child in below))


def wait_until_gone(pids: set[int]) -> None:
    """Wait for the end of all of them."""
    end = time.monotonic() + 60
    while left := {pid for pid in pids if read_process(pid) is not None}:
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.05)


def to_the_group(running: subprocess.Popen[str]) -> None:
    os.killpg(running.pid, signal.SIGINT)


def to_the_run(number: int) -> Callable[[subprocess.Popen[str]], None]:
    return lambda running: running.send_signal(number)


@pytest.mark.parametrize(
    "end",
    [to_the_group, to_the_run(signal.SIGTERM), to_the_run(signal.SIGHUP)],
    ids=["Ctrl-C", "SIGTERM", "closed terminal"],
)
def test_an_interrupted_run_leaves_what_it_found_and_says_so(shell: Shell, end: Callable[..., None]) -> None:
    shell.write("mine.py", STUBBORN)
    with started(shell, *RUN, "mine:stubborn", "-n", "1", *SELECT) as running:
        first_verdict(running)
        workers = descendants(running.pid)
        assert workers
        end(running)
        said, error = running.communicate(timeout=120)
    assert running.returncode == 1, error
    assert "interrupted: requirements are missing" in said
    assert "Traceback" not in error
    report = read_report(shell.folder / "out")
    assert report.interrupted
    # what the user interrupted is not held against the candidate
    assert report.counts.keys() == {"passed"}
    wait_until_gone(workers)


def test_a_run_that_is_killed_leaves_the_old_report_and_no_process(shell: Shell) -> None:
    shell.write("mine.py", STUBBORN)
    assert shell.run("run", "reference", "--select", "rng/dropout-mask", "--report", "out").code == 0
    old = (shell.folder / "out" / "report.json").read_bytes()
    with started(shell, *RUN, "mine:stubborn", "-n", "1", *SELECT) as running:
        first_verdict(running)
        workers = descendants(running.pid)
        running.kill()
        running.communicate(timeout=120)
    wait_until_gone(workers)
    assert (shell.folder / "out" / "report.json").read_bytes() == old


def test_an_interrupt_before_anything_ran_is_one_line(shell: Shell) -> None:
    shell.write("slow.py", "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(1000)\n")
    with started(shell, *RUN, "slow:checkpoint", "--report", "out") as running:
        while not (shell.folder / "begun").exists():
            assert running.poll() is None
            time.sleep(0.05)
        children = descendants(running.pid)
        to_the_group(running)
        said, error = running.communicate(timeout=120)
    assert (running.returncode, error) == (2, "ckpt-conformance: interrupted\n")
    assert "passed" not in said
    assert not (shell.folder / "out").exists()
    wait_until_gone(children)


FULL_DISK = """
import resource, sys
from ckpt_conformance.cli import main
from ckpt_conformance.suite import launch
write = launch.write_report
def on_a_full_disk(*given):
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, 4_000))
    return write(*given)
launch.write_report = on_a_full_disk
sys.exit(main(["run", "reference", "--select", "views", "--report", "out"]))
"""


def test_a_disk_that_is_full_leaves_the_old_report_and_nothing_else(shell: Shell) -> None:
    assert shell.run("run", "reference", "--select", "rng/dropout-mask", "--report", "out").code == 0
    before = {path.name: path.read_bytes() for path in (shell.folder / "out").iterdir() if path.is_file()}
    ended = shell.python("-c", FULL_DISK)
    assert ended.code == 2
    assert ended.err.startswith(f"ckpt-conformance: error: {shell.folder / 'out'} cannot be written: ")
    assert ended.err.count("\n") == 1
    after = {path.name: path.read_bytes() for path in (shell.folder / "out").iterdir() if path.is_file()}
    assert after == before
    assert json.loads(after["report.json"])["findings"][0]["verdict"] == "passed"


def test_what_a_killed_run_left_half_written_goes_with_the_next_report(shell: Shell) -> None:
    only = ("run", "reference", "--select", "rng/dropout-mask", "--report", "out")
    assert shell.run(*only).code == 0
    left = shell.folder / "out" / f".report.json.{'0f' * 8}.tmp"
    left.write_text('{"sche')
    kept = shell.folder / "out" / ".mine.tmp"
    kept.write_text("not ours")
    assert shell.run(*only).code == 0
    assert not left.exists()
    assert kept.exists()
