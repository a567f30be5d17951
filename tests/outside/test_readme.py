"""What the README shows, run in a library of somebody else's."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest

from tests.documents import block, blocks, published_rows
from tests.outside.environment import ROOT, Environment

README = "README.md"
TWO = "split-saved-by-consumer or explicit-generator"


def shown(heading: str, language: str, part: str) -> str:
    """The block under a heading that has a certain text in it."""
    (found,) = (
        one.text
        for one in blocks(README)
        if (one.heading, one.language) == (heading, language) and part in one.text
    )
    return found


def test_the_quick_start_gives_a_verdict_and_a_report(environment: Environment, library: Path) -> None:
    ended = environment.bash(shown("Quick start", "bash", "--report out/"), library)
    assert ended.code == 0, ended.said
    assert "2 passed" in ended.said
    assert {path.name for path in (library / "out").iterdir()} >= {
        "report.json", "report.html", "report.sarif", "summary.md",
    }  # fmt: skip


def test_init_writes_files_for_the_library(environment: Environment, library: Path) -> None:
    ended = environment.bash(shown("Quick start", "bash", "init"), library)
    assert ended.code == 0, ended.said
    assert (library / "conformance_candidate.py").is_file()


def test_the_commands_for_a_clone_name_environments_that_exist() -> None:
    tox = configparser.RawConfigParser()
    tox.read(ROOT / "tox.ini")
    assert "run -e conformance" in shown("Quick start", "bash", "pip install tox")
    assert "testenv:conformance{,-torch213,-torch214}" in tox
    assert "CKPT_CANDIDATE_INSTALL" in shown("Quick start", "bash", "./mylib")
    assert "{env:CKPT_CANDIDATE_INSTALL:}" in tox["testenv:conformance{,-torch213,-torch214}"]["deps"]


def test_the_suite_runs_in_a_pytest_job(environment: Environment, library: Path) -> None:
    few = "--ckpt-select=views/split-saved-by-consumer"
    script = block(README, "Three ways to plug in", "bash")
    ended = environment.bash(script, library, PYTEST_ADDOPTS=few)
    assert ended.code == 0, ended.said
    assert "1 passed" in ended.said


def test_a_test_of_ones_own_for_each_requirement(environment: Environment, library: Path) -> None:
    (library / "tests" / "test_ours.py").write_text(
        shown("Three ways to plug in", "python", "parametrize_with_checks")
    )
    ended = environment.pytest("tests/test_ours.py", "-W", "error", "-k", TWO, cwd=library)
    assert ended.code == 0, ended.said
    assert re.search(r" 1 passed, \d+ deselected, 1 xfailed in ", ended.said), ended.said


def test_a_test_around_ones_own_training_step(environment: Environment, library: Path) -> None:
    (library / "tests" / "test_ours.py").write_text(shown("Three ways to plug in", "python", "ckpt_leaks"))
    ended = environment.pytest("tests/test_ours.py", "-W", "error", cwd=library)
    assert ended.code == 0, ended.said
    assert " 1 passed in " in ended.said


def test_the_leak_report_reads_as_shown(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(block(README, "How to read a leak report", "python"))
    ended = environment.run(str(environment.python), "train.py", cwd=tmp_path)
    assert ended.code == 1
    said = iter(ended.said.splitlines())
    for line in block(README, "How to read a leak report", "text").splitlines():
        assert any(one.endswith(line) for one in said), line


@pytest.mark.parametrize("document", [README, "docs/ci.md"])
def test_links_lead_to_files_that_are_there(document: str) -> None:
    folder = (ROOT / document).parent
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text())
    assert [link for link in links if not (folder / link).exists()] == []


def test_the_table_is_that_of_the_matrix() -> None:
    text = (ROOT / README).read_text()
    assert "".join(published_rows()) in text, "`python -m tests.documents` brings the table up to date"
