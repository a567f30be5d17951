"""Workers are ended for what they take, not for what the machine does not give them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from ckpt_conformance.suite import watch as watching
from ckpt_conformance.suite.now import Now, is_at, read_now
from ckpt_conformance.suite.process import Reading, can_be_read, read_process, wants_to_run
from ckpt_conformance.suite.watch import GIB, Ended, Watch

pytestmark = pytest.mark.skipif(not can_be_read(), reason="there is no /proc")

SLEEP = "import time; print(flush=True); time.sleep(1000)"
SPIN = "print(flush=True)\nwhile True: pass"
GROW = "print(flush=True); kept = [b'x' * (1 << 28)]; import time; time.sleep(1000)"


@contextmanager
def process(source: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has begun to do what the source says."""
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        running.stdout.readline()
        try:
            yield running
        finally:
            running.kill()


def say(folder: Path, running: subprocess.Popen[str], seconds: float, turn: int = 1) -> Now:
    """What a worker would say of itself."""
    reading = read_process(running.pid)
    assert reading is not None
    now = Now(running.pid, reading.born, turn, "item", seconds, making=False)
    folder.mkdir(exist_ok=True)
    (folder / "now.json").write_text(json.dumps(asdict(now)))
    return now


@contextmanager
def watched(folder: Path, most_bytes: int = GIB) -> Iterator[Watch]:
    watch = Watch(folder, most_bytes)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


@pytest.mark.parametrize(
    ("source", "most_bytes", "memory"),
    [(SLEEP, GIB, False), (SPIN, GIB, False), (GROW, GIB // 8, True)],
    ids=["asleep", "busy", "large"],
)
def test_what_takes_too_much_is_ended(tmp_path: Path, source: str, most_bytes: int, memory: bool) -> None:
    with process(source) as running, watched(tmp_path, most_bytes) as watch:
        say(tmp_path / "gw0", running, 1000 if memory else 0.3)
        running.wait(60)
        why = watch.why("gw0")
    assert why is not None
    assert (why.item, why.memory > most_bytes) == ("item", memory)


def test_a_worker_between_two_requirements_is_left_alone(tmp_path: Path) -> None:
    with process(SLEEP) as idle, process(SLEEP) as late, watched(tmp_path) as watch:
        say(tmp_path / "gw0", idle, 0)
        say(tmp_path / "gw1", late, 0.2)
        late.wait(60)
        assert idle.poll() is None
        assert watch.why("gw0") is None


def test_another_process_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    with process(SLEEP) as other, process(SLEEP) as late, watched(tmp_path) as watch:
        now = asdict(say(tmp_path / "gw0", other, 0.2))
        (tmp_path / "gw0" / "now.json").write_text(json.dumps(now | {"born": now["born"] - 1}))
        say(tmp_path / "gw1", late, 0.4)
        late.wait(60)
        watch.end_all()
        assert other.poll() is None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be moved by hand."""
    now = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    return now


def block() -> watching._Block:
    return watching._Block(Now(1, 1, 1, "item", 5.0, making=False), 0.0, 0.0)


def test_time_that_a_process_waits_for_a_processor_does_not_count(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "wants_to_run", lambda pid: True)
    starved = block()
    for look in range(1, 1001):
        clock[0] = 0.1 * look
        starved.count(Reading(1, processor=0.001 * look, memory=0))
    assert starved.spent == pytest.approx(1.0)


def test_time_asleep_counts_but_not_time_in_which_everything_stood_still(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "wants_to_run", lambda pid: False)
    asleep = block()
    for look in range(1, 11):
        clock[0] = 0.1 * look
        asleep.count(Reading(1, processor=0.0, memory=0))
    assert asleep.spent == pytest.approx(1.0)
    clock[0] = 3600.0
    asleep.count(Reading(1, processor=0.0, memory=0))
    assert asleep.spent < 1.5


def test_several_threads_at_work_do_not_make_time_pass_faster(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "wants_to_run", lambda pid: True)
    busy = block()
    clock[0] = 0.1
    busy.count(Reading(1, processor=0.8, memory=0))
    assert busy.spent == pytest.approx(0.1)


def test_a_process_is_seen_as_it_is() -> None:
    own = read_process(os.getpid())
    assert own is not None
    assert own.processor > 0
    assert own.memory > 1 << 20
    assert wants_to_run(os.getpid())
    with process(SLEEP) as running:
        while wants_to_run(running.pid):
            time.sleep(0.01)
        running.kill()
        running.wait()
        assert read_process(running.pid) is None
        assert not wants_to_run(running.pid)


def test_half_a_word_of_a_worker_is_no_word(tmp_path: Path) -> None:
    (tmp_path / "now.json").write_text('{"pid": 1, "bo')
    assert read_now(tmp_path) is None
    (tmp_path / "now.json").write_text('{"pid": 1}')
    assert read_now(tmp_path) is None
    assert not is_at(None, "item")
    assert Watch(tmp_path, GIB).why("gw0") is None
    assert Ended("item", 0).memory == 0
