"""Run code of a candidate's in a forked child, so that its crash or hang is an answer and not our end."""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from ckpt_conformance.suite.process import die_with_the_parent, read_process
from ckpt_conformance.suite.watch import GIB

_MOST_BYTES: Final = 64 << 20
_PERIOD: Final = 0.1


class ChildDiedError(Exception):
    """The child ended without an answer; the message says how, in a few words."""


def in_child(work: Callable[[], Any], seconds: float, most_bytes: int) -> Any:
    """What `work` returns, computed in a forked child.

    The parent must not have used torch's thread pools or CUDA yet. What the child prints is thrown away.

    Args:
        work: Gives a value that JSON can carry.
        seconds: The child's time limit.
        most_bytes: How much memory of its own it may hold.

    Raises:
        ChildDiedError: It crashed, ended the process, hung, or took too much memory.
    """
    reading, writing = os.pipe()
    began = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _answer_and_exit(work, writing, seconds)
    os.close(writing)
    try:
        answer = _read(reading, child, seconds + 5, most_bytes)
    finally:
        os.close(reading)
        status = _end(child)
    if not answer:
        raise ChildDiedError(_how(status, seconds, time.monotonic() - began))
    return json.loads(answer)


def _answer_and_exit(work: Callable[[], Any], writing: int, seconds: float) -> None:
    """In the child: never return, whatever the candidate's code does."""
    try:
        die_with_the_parent()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        with open(os.devnull, "w") as file:  # noqa: PTH123 - it must have a descriptor of its own
            faulthandler.dump_traceback_later(seconds, exit=True, file=file)
            answer = json.dumps(work()).encode()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)


def _read(reading: int, child: int, seconds: float, most_bytes: int) -> bytes:
    answer, end = b"", time.monotonic() + seconds
    while len(answer) < _MOST_BYTES and time.monotonic() < end:
        looked = read_process(child)
        if looked is not None and looked.memory > most_bytes:
            os.kill(child, signal.SIGKILL)
            raise ChildDiedError(f"grew past {most_bytes / GIB:g} GiB of memory")
        if select.select([reading], [], [], _PERIOD)[0]:
            chunk = os.read(reading, 1 << 16)
            if not chunk:
                break
            answer += chunk
    return answer


def _end(child: int) -> int:
    """Wait for a child that has answered or had its time; one that still runs is ended."""
    done, status = os.waitpid(child, os.WNOHANG)
    for _ in range(20):
        if done:
            return status
        time.sleep(0.05)
        done, status = os.waitpid(child, os.WNOHANG)
    os.kill(child, 9)
    return os.waitpid(child, 0)[1]


def _how(status: int, seconds: float, taken: float) -> str:
    code = os.waitstatus_to_exitcode(status)
    # by its own watch, or by our hand; a candidate may end with 1, too, but sooner
    if code in {1, -signal.SIGKILL} and taken >= seconds:
        return f"did not end within {seconds:g} s"
    return f"crashed the process (signal {-code})" if code < 0 else f"ended the process with exit code {code}"
