"""Run programs in a forked child: one that crashes or hangs is a difference like any other."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.execute import execute
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import Difference, difference, useless
from ckpt_conformance.fuzz.program import Program

SECONDS = 10.0
"""How long one program may take before it counts as hung."""

_STARTING = 60.0
"""How long a child may take until it is ready: to make a CUDA context takes seconds."""

MOST_BYTES = 8 << 30
"""How much memory a child may ask for on the CPU: a program needs a few kilobytes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one program.

    Attributes:
        difference: The first difference, if there is one.
        useless: Why the plain run says nothing; empty where it does.
    """

    difference: Difference | None = None
    useless: str = ""


_LOOKS = 3
"""How often memory on a GPU has to be seen alive: the engine's threads let go of a backward's tensors only
after it has returned."""


def compare(program: Program, candidate: Candidate) -> Answer:
    """Run a program plainly and under the candidate, in this process."""
    plain = execute(program, PLAIN)
    if why := useless(program, plain):
        return Answer(useless=why)
    for _ in range(_LOOKS if prelude.DEVICE == "cuda" else 1):
        found = difference(program, candidate, plain, execute(program, candidate))
        if found is None or not found.aspect.startswith("memory stays alive"):
            break
    return Answer(found)


class Worker:
    """A child process that compares programs one after another; after a death the next gets a new one.

    The parent must not have run a tensor operation in several threads: torch's threads do not survive a fork.

    Args:
        make: Gives the candidate, in the child.
        seconds: How long one program may take.
        device: `cpu` or `cuda`.
    """

    def __init__(
        self, make: Callable[[], Candidate], *, seconds: float = SECONDS, device: str = "cpu"
    ) -> None:
        self._make = make
        self._seconds = seconds
        self._device = device
        self._child: int | None = None

    def __call__(self, program: Program) -> Answer:
        """Compare one program.

        Raises:
            RuntimeError: The candidate cannot be made.
        """
        if self._child is None:
            self._start()
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, (program.to_json() + "\n").encode())
        ready, _, _ = select.select([self._answers], [], [], self._seconds)
        line = self._answers.readline() if ready else b""
        if line:
            return _read(line)
        return Answer(self._bury(hung=not ready))

    def _start(self) -> None:
        # torch.utils.checkpoint imports it in its first call, which takes longer than a program may
        importlib.import_module("torch._dynamo")
        theirs, self._requests = os.pipe()
        answers, ours = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._requests)
            os.close(answers)
            _serve(self._make, self._device, theirs, ours)
        os.close(theirs)
        os.close(ours)
        self._answers = os.fdopen(answers, "rb", buffering=0)
        if select.select([self._answers], [], [], _STARTING)[0]:
            self._answers.readline()

    @contextlib.contextmanager
    def hurried(self) -> Iterator[None]:
        """Let programs count as hung sooner, for as long as many are asked that may."""
        seconds, self._seconds = self._seconds, self._seconds / 5
        try:
            yield
        finally:
            self._seconds = seconds

    def _bury(self, *, hung: bool) -> Difference:
        assert self._child is not None
        if hung:
            os.kill(self._child, signal.SIGKILL)
        status = self._end()
        if hung:
            return Difference("the program hangs", f"no answer in {self._seconds:g} s")
        code = os.waitstatus_to_exitcode(status)
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return Difference(f"the process dies {how}", f"the process died {how}")

    def _end(self) -> int:
        assert self._child is not None
        os.close(self._requests)
        self._answers.close()
        _, status = os.waitpid(self._child, 0)
        self._child = None
        return status

    def close(self) -> None:
        """End the child, whatever it is doing: a program that hangs would never see that nobody asks more."""
        if self._child is not None:
            os.kill(self._child, signal.SIGKILL)
            self._end()


def _read(line: bytes) -> Answer:
    data = json.loads(line)
    found = data["difference"]
    return Answer(Difference(**found) if found else None, data["useless"])


def _prepare(device: str) -> None:
    """Bound what a candidate may take from the machine, and make every operation deterministic."""
    warnings.simplefilter("ignore")  # a program's warnings are nobody's to read
    prelude.DEVICE = device
    if device == "cpu":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = MOST_BYTES if most == resource.RLIM_INFINITY else min(MOST_BYTES, most)
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
        return
    # a CUDA context maps more than any sensible limit; the workspace setting is what cuBLAS asks for
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)


def _serve(make: Callable[[], Candidate], device: str, requests: int, answers: int) -> None:
    """Answer until the parent closes its end; never returns."""
    code = 1
    try:
        _prepare(device)
        candidate = make()
        execute(make_program(lambda options: options[0]), PLAIN)
        os.write(answers, b"ready\n")
        gc.freeze()  # what is there by now no program can make garbage: do not walk it again and again
        with os.fdopen(requests, "rb") as lines:
            for line in lines:
                answer = compare(Program.from_json(line.decode()), candidate)
                os.write(answers, (json.dumps(asdict(answer)) + "\n").encode())
        code = 0
    finally:
        os._exit(code)
