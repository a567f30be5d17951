"""The pytest fixtures that other repositories use; imported in every test run, so nothing heavy up here."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ckpt_conformance.leaks import LeakReport, leak_guard

_ALL: Final = 2
"""From this verbosity on (`-vv`) all leaks are written out."""


@pytest.fixture
def ckpt_leaks(request: pytest.FixtureRequest) -> Callable[..., leak_guard]:
    """Guard a training loop of one's own.

    `with ckpt_leaks(steps=6, warmup=2) as steps:`, and in it the loop over the steps. It takes what
    `leak_guard` takes, and raises what it raises. The baseline is the file that the setting
    `ckpt_leaks_baseline` names, relative to the root directory, unless one is given.
    """
    from ckpt_conformance.leaks import leak_guard

    return functools.partial(leak_guard, **guard_options(request.node))


def guard_options(item: pytest.Item) -> dict[str, Any]:
    """What the settings and the command line say about the guard of a test."""
    return {
        "baseline": baseline_of(item.config),
        "every": item.config.get_verbosity() >= _ALL,
        "on_report": functools.partial(_record, item),
    }


def _record(item: pytest.Item, report: LeakReport) -> None:
    """Note a test's leak report in JUnit's XML, and write it where it was asked for."""
    from ckpt_conformance.report.leaks.junit import junit_properties

    item.user_properties += junit_properties(report)
    if report.leaks and not report.new:
        from ckpt_conformance.leaks.text import as_text

        # nothing is raised for what is late or known, so this is where a log can show it (-rA)
        item.add_report_section("call", "ckpt_leaks", as_text(report))
    folder = item.config.getoption("ckpt_leak_report")
    if folder:
        from ckpt_conformance.report.leaks.files import write_leak_report

        # relative to where pytest was started; the test may have changed directory
        place = item.config.invocation_params.dir / folder
        written = write_leak_report(report, place, item.nodeid)
        item.add_report_section("call", "ckpt_leaks", f"leak report: {written / 'leaks.html'}")


def baseline_of(config: pytest.Config) -> Path | None:
    """The file of known leaks that the settings name."""
    named = config.getini("ckpt_leaks_baseline")
    return config.rootpath / named if named else None
