"""What `pytest --pyargs ckpt_conformance.suite` collects: one test for each requirement of each candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ckpt_conformance.suite.outcome import FINDING, show
from ckpt_conformance.suite.session import SESSION

if TYPE_CHECKING:
    from ckpt_conformance.standard.registry import Requirement


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each requirement; without a candidate there is one that is skipped."""
    session = metafunc.config.stash.get(SESSION, None)
    cases = [] if session is None else session.cases()
    parameters = [pytest.param(name, made, id=f"{name}-{made.id}") for name, made in cases]
    metafunc.parametrize(("ckpt_name", "ckpt_requirement"), parameters)


def test_requirement(ckpt_name: str, ckpt_requirement: Requirement, request: pytest.FixtureRequest) -> None:
    """Hold one candidate to one requirement."""
    __tracebackhide__ = True
    session = request.config.stash[SESSION]
    finding = request.node.stash[FINDING] = session.finding(ckpt_name, ckpt_requirement, request.node.nodeid)
    show(finding)
