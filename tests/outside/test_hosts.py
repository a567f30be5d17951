"""Three projects that are not ours, each under the ways in which people run pytest.

With the pytest of the environment that runs this; `tox run -e torch213-pytest84 -- tests/outside` takes 8.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.outside.environment import Environment

SWITCHES = (
    (("-p", "no:xdist"), ("-n", "2")),
    (("-p", "no:randomly"), ()),
    (("-p", "no:timeout"), ("--timeout=120",)),
    ((), ("--import-mode=importlib",)),
    ((), ("-W", "error")),
)
ROWS = ("00000", "11111", "11100", "10011", "01010", "00101")
"""Which of each switch's two sides to take: any two sides of two switches meet in one row."""

HOSTS = {
    "library": "2 passed",
    "parametrized": r"\d+ passed, 1 xfailed",
    "training": "3 passed",
}
"""The folder in fixtures/hosts to what its tests come to."""


@pytest.fixture(scope="module", params=HOSTS)
def project(request: pytest.FixtureRequest, host: Callable[[str], Path]) -> Path:
    return host(request.param)


@pytest.mark.parametrize("row", ROWS)
def test_a_host_passes_without_a_warning(project: Path, environment: Environment, row: str) -> None:
    options = [part for sides, side in zip(SWITCHES, row, strict=True) for part in sides[int(side)]]
    ended = environment.pytest(*options, cwd=project)
    assert ended.code == 0, ended.said
    assert re.search(f"^=* ?{HOSTS[project.name]} in ", ended.said, re.MULTILINE), ended.said
    assert "warning" not in ended.said.lower()


def test_the_package_comes_from_the_wheel(environment: Environment, tmp_path: Path) -> None:
    where = "import ckpt_conformance; print(ckpt_conformance.__file__)"
    ended = environment.run(str(environment.python), "-c", where, cwd=tmp_path)
    assert Path(ended.said.strip()).is_relative_to(environment.folder)


def test_what_the_wheel_declares_is_all_that_it_needs(environment: Environment, tmp_path: Path) -> None:
    ended = environment.run(str(environment.python), "-m", "pip", "check", cwd=tmp_path)
    assert (ended.code, ended.said.strip()) == (0, "No broken requirements found.")
