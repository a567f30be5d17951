"""One pytest run of the suite: the candidates, what was asked for, and what becomes of a requirement."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from ckpt_conformance.candidate import Candidate, Expected
from ckpt_conformance.expectations import settled
from ckpt_conformance.report.model import Finding, ReportError, Verdict
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import Requirement
from ckpt_conformance.suite.device import is_lost
from ckpt_conformance.suite.options import BAD_INPUT, MAKING, Options, expected_of
from ckpt_conformance.suite.snapshots import SNAPSHOTS, judge_recording
from ckpt_conformance.suite.worker import Worker

STACKS: Final = "ckpt_stacks"
"""The entry by which a worker learns where to leave the stacks of a death."""


class Session:
    """What a process of the run knows; each part is made when first asked for: a candidate may crash then.

    Args:
        config: The pytest run.
        worker: What limits the time of a requirement in this process.
        snapshots: Where to leave the allocator's record of a failure, or None.
    """

    def __init__(self, config: pytest.Config, worker: Worker, snapshots: Path | None = None) -> None:
        self._config = config
        self._worker = worker
        self._snapshots = snapshots
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

    def finding(self, name: str, requirement: Requirement) -> Finding:
        """Hold one candidate to one requirement, within its time."""
        with self._worker.limited(MAKING):
            # torch loads its compiler at the first call of its own checkpoint: seconds on a busy machine,
            # which are no requirement's
            importlib.import_module("torch._dynamo")
            candidate, expected, lab = self.candidates[name], self.expected[name], self.lab
        with self._worker.limited(self.options.limit(requirement)):
            finding = judge_recording(requirement, candidate, lab, self._snapshots)
        if is_lost(lab.device):
            self._worker.give_up(finding.found or finding.summary)
        return settled(_timed_out(finding), expected)


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
    stacks = None if given is None else Path(given[STACKS]) / given["workerid"]
    worker = Worker(stacks)
    config.pluginmanager.register(worker, "ckpt-worker")
    snapshots = None if given is None else Path(given[STACKS]) / SNAPSHOTS
    config.stash[SESSION] = Session(config, worker, snapshots)
    if given is None:
        _begin_collecting(config)


def _begin_collecting(config: pytest.Config) -> None:
    """Collect the findings here, unless the command line already brought what does."""
    from ckpt_conformance.suite.recorder import PLUGIN, Recorder

    session = config.stash[SESSION]
    if not config.pluginmanager.has_plugin(PLUGIN):
        try:
            recorder = Recorder(
                session.candidates, session.expected, session.options, report=_report_folder(config, session)
            )
        except BAD_INPUT as error:
            raise pytest.UsageError(str(error)) from error
        config.pluginmanager.register(recorder, PLUGIN)


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
