"""Collect the findings of a pytest run, from this process or from workers, and make the run's record."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from ckpt_conformance.candidate import Candidate, Expected
from ckpt_conformance.expectations import settled
from ckpt_conformance.report.folder import report_files
from ckpt_conformance.report.model import Finding, Run
from ckpt_conformance.report.record import record
from ckpt_conformance.report.storage import claim, write_report
from ckpt_conformance.report.text import render_text
from ckpt_conformance.standard.registry import Requirement, requirements
from ckpt_conformance.suite.deaths import died_making, finding_of_a_death
from ckpt_conformance.suite.options import Options, device_named
from ckpt_conformance.suite.outcome import from_plain, to_plain
from ckpt_conformance.suite.scripts import scripts_for, with_scripts
from ckpt_conformance.suite.session import HOPELESS, REPLACEABLE, STACKS, stacks_folder
from ckpt_conformance.suite.snapshots import SNAPSHOTS, move_snapshots
from ckpt_conformance.suite.watch import Watch
from ckpt_conformance.suite.worker import ATTRIBUTE

_ITEM: Final = re.compile(
    r"test_standard\.py::test_requirement\[(?P<name>.*)-(?P<id>[a-z]+/[^/\]]+)\]$", re.S
)
_TAKING_BACK: Final = frozenset({"load", "worksteal"})
"""The ways of pytest-xdist in which another worker can take over what one has not begun."""
_MOST_AGAIN: Final = 3
_MOST_DEATHS_IN_MAKING: Final = 2


class Recorder:
    """A pytest plugin for the process that reports.

    Args:
        candidates: What the user typed to what it means; see `Session.candidates`.
        expected: For each candidate, which requirements are expected to fail.
        options: What was asked for.
        report: The folder to write the report to, or None.
        progress: Called with each finding as it comes.
        own_workers: Whether the workers run nothing but the suite, so that nobody minds how they end.

    Raises:
        ReportError: The report folder cannot be had.
        SelectionError: Nothing is selected.
        DeviceError: The device is not there.
    """

    def __init__(
        self,
        candidates: Mapping[str, Candidate],
        expected: Mapping[str, Mapping[str, Expected]],
        options: Options,
        *,
        report: Path | None = None,
        progress: Callable[[Finding], None] | None = None,
        own_workers: bool = False,
    ) -> None:
        self._candidates = candidates
        self._expected = expected
        self._options = options
        self._report = report
        self._progress = progress
        self._own_workers = own_workers
        self._standard = list(requirements())
        self._chosen = options.chosen()
        self._found: dict[str, dict[str, Finding]] = {name: {} for name in candidates}
        self._stacks = stacks_folder()
        self._started, self._clock = datetime.now(UTC), time.perf_counter()
        self.faults: dict[str, str] = {}
        self.interrupted = False
        self._watch = Watch(Path(self._stacks.name), options.most_bytes, own_groups=own_workers)
        self._again: Counter[str] = Counter()
        self._deaths_in_making = 0
        if report is not None:
            claim(report)

    def pytest_unconfigure(self) -> None:
        """Watch no more."""
        self._watch.stop()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a new worker where to leave the stacks of its death, and watch it."""
        self._watch.start()
        node.workerinput[STACKS] = self._stacks.name
        node.workerinput[REPLACEABLE] = node.config.getoption("dist") in _TAKING_BACK

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """Turn the death of a worker into the finding of the requirement that it ran."""
        item = self._item(crashitem)
        if item is None:
            return
        name, requirement = item
        finding = self._finding_of(report.node.gateway.id, crashitem, requirement)
        if finding is not None:
            setattr(report, ATTRIBUTE, to_plain(settled(finding, self._expected[name])))
        elif self._again[crashitem] < _MOST_AGAIN:
            # the worker died, or had had enough, before it began: another one takes it
            self._again[crashitem] += 1
            with suppress(NotImplementedError):
                sched.mark_test_pending(crashitem)
                report.outcome = "rerun"

    def _finding_of(self, worker: str, item: str, requirement: Requirement) -> Finding | None:
        """What the death of a worker means for the requirement that it was at; see `finding_of_a_death`."""
        folder = Path(self._stacks.name) / worker
        limits = self._options.limits(requirement)
        finding = finding_of_a_death(requirement, item, folder, self._watch.why(worker), limits)
        if finding is not None and died_making(folder):
            self._deaths_in_making += 1
            if self._deaths_in_making == _MOST_DEATHS_IN_MAKING:
                (folder.parent / HOPELESS).write_text(f"making it failed before: {finding.found}")
        return finding

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a finding as it comes; a failure without one is a fault of the suite."""
        item = self._item(report.nodeid)
        plain = getattr(report, ATTRIBUTE, None)
        if item is None:
            return
        if plain is not None:
            finding = self._found[item[0]][item[1].id] = from_plain(plain)
            if self._progress is not None:
                self._progress(finding)
        elif report.failed:
            self.faults[item[1].id] = report.longreprtext

    def pytest_keyboard_interrupt(self) -> None:
        """Remember that requirements are missing because the user wanted no more; wait for no worker."""
        self.interrupted = True
        if self._own_workers:
            self._watch.end_all()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the runs under pytest's own report, and write the one that was asked for."""
        for run in self.runs():
            terminalreporter.section(f"conformance of {run.candidate.name}")
            terminalreporter.write(render_text(run, self._standard))
        if self._report is not None:
            for name, run in zip(self._candidates, self.runs(), strict=True):
                whole = with_scripts(run, scripts_for(run, self._candidates[name], name))
                write_report(whole, self._report, report_files(whole, self._standard))
                self.keep_snapshots(self._report)

    def runs(self) -> list[Run]:
        """The record of each candidate's run."""
        missing = not self.interrupted and any(self.missing())
        return [
            record(
                candidate,
                self._in_order(self._found[name]),
                self._standard,
                target=name,
                device=device_named(self._options.device),
                started=self._started,
                seconds=time.perf_counter() - self._clock,
                interrupted=self.interrupted or missing,
            )
            for name, candidate in self._candidates.items()
        ]

    def missing(self) -> list[str]:
        """The requirements that were asked for and got no finding."""
        return [made.id for made in self._chosen for found in self._found.values() if made.id not in found]

    def keep_snapshots(self, report: Path) -> None:
        """Put the allocator's records that workers left into a report that was written."""
        move_snapshots(Path(self._stacks.name) / SNAPSHOTS, report)

    def _in_order(self, found: Mapping[str, Finding]) -> list[Finding]:
        return [found[made.id] for made in self._standard if made.id in found]

    def _item(self, nodeid: str) -> tuple[str, Requirement] | None:
        """The candidate and the requirement that a test is about, where it is one of the suite's."""
        match = _ITEM.search(nodeid)
        if match is None:
            return None
        made = next((made for made in self._standard if made.id == match["id"]), None)
        # pytest escapes what is not ASCII in a test's name
        names = [name for name in self._candidates if name.encode("unicode_escape").decode() == match["name"]]
        name = names[0] if names else next(iter(self._candidates))
        return None if made is None else (name, made)
