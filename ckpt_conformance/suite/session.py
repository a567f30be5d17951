"""One pytest run of the suite: the candidates, what was asked for, and what becomes of a requirement."""

from __future__ import annotations

import importlib
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from ckpt_conformance.candidate import Candidate, CandidateError, Expected
from ckpt_conformance.expectations import settled
from ckpt_conformance.report.model import Finding, ReportError, Verdict
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import Requirement
from ckpt_conformance.suite.device import is_lost
from ckpt_conformance.suite.options import BAD_INPUT, MAKING, Options, expected_of
from ckpt_conformance.suite.snapshots import SNAPSHOTS, judge_recording
from ckpt_conformance.suite.worker import MortalWorker, Worker

STACKS: Final = "ckpt_stacks"
"""The entry by which a worker learns where to leave the stacks of a death."""
REPLACEABLE: Final = "ckpt_replaceable"
"""The entry by which a worker learns whether another may take over from it."""
HOPELESS: Final = "hopeless.txt"
"""The file that says why the candidate cannot be made, once several workers died of that."""
ISOLATED: Final = Path(__file__).with_name("isolated.ini")
"""The configuration of a run that `ckpt-conformance` starts: nothing there is the user's own."""


class Session:
    """What a process of the run knows; each part is made when first asked for: a candidate may crash then.

    Args:
        config: The pytest run.
        worker: What limits the time of a requirement in this process.
        left: The folder for what workers leave, or None where this is none.
    """

    def __init__(self, config: pytest.Config, worker: Worker, left: Path | None = None) -> None:
        self._config = config
        self._worker = worker
        self._left = left
        self.options = Options.of(config)

    def cases(self) -> Iterator[tuple[str, Requirement]]:
        """The name of each candidate with each requirement that was asked for."""
        names = self.options.targets or tuple(self.candidates)
        chosen = self.options.chosen()
        yield from ((name, made) for name in names for made in chosen)

    @cached_property
    def candidates(self) -> dict[str, Candidate]:
        """What the user typed, or a candidate's name where a conftest gave it, to the candidate."""
        return self.options.candidates(self._config)

    @cached_property
    def expected(self) -> dict[str, dict[str, Expected]]:
        """For each candidate, which requirements are expected to fail."""
        return {name: expected_of(made, self.options.expect) for name, made in self.candidates.items()}

    @cached_property
    def lab(self) -> Lab:
        """Where the requirements run."""
        return self.options.lab()

    def finding(self, name: str, requirement: Requirement, item: str) -> Finding:
        """Hold one candidate to one requirement, within its limits; `item` is the pytest node id of that."""
        try:
            self._make(name, item)
        except BAD_INPUT as error:
            return _not_made(requirement, str(error))
        with self._worker.limited(item, self.options.limit(requirement)):
            threads = set(threading.enumerate())
            finding = judge_recording(requirement, self.candidates[name], self.lab, self._snapshots())
            if set(threading.enumerate()) - threads:
                # a thread cannot be taken away, and may change what the next requirement sees
                self._worker.retire()
        if is_lost(self.lab.device):
            self._worker.give_up(finding.found or finding.summary)
        return settled(_timed_out(finding), self.expected[name])

    def _snapshots(self) -> Path | None:
        return None if self._left is None else self._left / SNAPSHOTS

    def _make(self, name: str, item: str) -> None:
        """Make what every requirement needs.

        Raises:
            CandidateError: The candidate cannot be made in this process, though it could before.
        """
        if self._left is not None and (self._left / HOPELESS).exists() and "candidates" not in vars(self):
            raise CandidateError((self._left / HOPELESS).read_text())
        with self._worker.limited(item, MAKING, making=True):
            # torch loads its compiler at the first call of its own checkpoint: seconds on a busy machine,
            # which are no requirement's
            importlib.import_module("torch._dynamo")
            _ = self.candidates[name], self.expected[name], self.lab


def _not_made(requirement: Requirement, said: str) -> Finding:
    """The finding where a candidate that was there cannot be made again, as if it deleted its own module."""
    return Finding(
        requirement=requirement.id,
        level=requirement.level,
        verdict=Verdict.CRASHED,
        summary="the candidate cannot be made any more",
        expected="that a new process can make it",
        found=said,
    )


def _timed_out(finding: Finding) -> Finding:
    """The finding as `hung` where pytest-timeout ended the requirement in the user's own process."""
    if finding.verdict is Verdict.FAILED and finding.found.startswith("Failed: Timeout"):
        return replace(finding, verdict=Verdict.HUNG, summary="the time limit passed")
    return finding


SESSION: Final = pytest.StashKey[Session]()


def begin(config: pytest.Config) -> None:
    """Set the suite up in this pytest process, be it a worker's, the controlling one, or the only one.

    Raises:
        pytest.UsageError: What was asked for cannot be done; one line.
    """
    given: Any = getattr(config, "workerinput", None)
    left = None if given is None else Path(given[STACKS])
    worker = Worker() if left is None else _mortal(config, left, given)
    config.pluginmanager.register(worker, "ckpt-worker")
    config.stash[SESSION] = Session(config, worker, left)
    if given is None:
        _begin_collecting(config)


def _mortal(config: pytest.Config, left: Path, given: Mapping[str, Any]) -> MortalWorker:
    return MortalWorker(
        left / given["workerid"], quiet=config.inipath == ISOLATED, replaceable=given[REPLACEABLE]
    )


def _begin_collecting(config: pytest.Config) -> None:
    """Collect the findings here, unless the command line already brought what does."""
    from ckpt_conformance.suite.recorder import Recorder

    session = config.stash[SESSION]
    if not any(isinstance(plugin, Recorder) for plugin in config.pluginmanager.get_plugins()):
        try:
            recorder = Recorder(
                session.candidates, session.expected, session.options, report=_report_folder(config, session)
            )
        except BAD_INPUT as error:
            raise pytest.UsageError(str(error)) from error
        config.pluginmanager.register(recorder, "ckpt-recorder")


def _report_folder(config: pytest.Config, session: Session) -> Path | None:
    folder: str | None = config.getoption("ckpt_report")
    if folder is None:
        return None
    if len(session.candidates) != 1:
        raise ReportError("--ckpt-report is about one candidate; name it with --ckpt-candidate")
    return config.invocation_params.dir / folder


def stacks_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for the stacks that dying workers leave."""
    return tempfile.TemporaryDirectory(prefix="ckpt-stacks-")
