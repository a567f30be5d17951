"""The matrix: candidates are run one after another, whatever one of them does, and rendered together."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ckpt_conformance import catalog
from ckpt_conformance.catalog.left_out import LEFT_OUT
from ckpt_conformance.matrix.environments import ENVIRONMENTS, interpreter
from ckpt_conformance.matrix.render import write
from ckpt_conformance.matrix.run import Row, Settings, kept, run_all
from ckpt_conformance.matrix.table import Matrix
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.standard.registry import requirements
from tests.unit.matrix_samples import finding, run_of


def settings(folder: Path, python: Path) -> Settings:
    return Settings(report=folder, pythons={"broken": python, "after": python}, environments=None)


def script(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_candidate_that_dies_leaves_a_row_and_the_next_one_runs(tmp_path: Path) -> None:
    seen: list[Row] = []
    rows = run_all(
        ["broken", "after"], settings(tmp_path, script(tmp_path, "echo no luck >&2; kill -9 $$")), seen.append
    )
    assert [row.name for row in rows] == ["broken", "after"] == [row.name for row in seen]
    assert all(row.run is None and "no luck" in row.problem for row in rows)


def test_what_a_candidate_lacks_is_told_without_the_warnings_before_it(tmp_path: Path) -> None:
    python = script(tmp_path, "echo a warning >&2; echo 'needs x: python -m pip install x' >&2; exit 2")
    (row,) = run_all(["broken"], settings(tmp_path, python), lambda _: None)
    assert row.problem == "needs x: python -m pip install x"


def test_an_interpreter_that_is_not_there_is_a_row_with_a_problem(tmp_path: Path) -> None:
    (row,) = run_all(["broken"], settings(tmp_path, tmp_path / "nowhere"), lambda _: None)
    assert row.run is None
    assert "nowhere" in row.problem


def test_an_interrupted_report_is_not_kept(tmp_path: Path) -> None:
    from ckpt_conformance.report.storage import write_report

    write_report(run_of("whole"), tmp_path / "whole")
    write_report(run_of("cut", interrupted=True), tmp_path / "cut")
    row = kept("whole", tmp_path / "whole")
    assert row is not None
    assert row.run == run_of("whole")
    assert kept("cut", tmp_path / "cut") is None


def test_a_candidate_runs_in_the_environment_that_the_user_named(tmp_path: Path) -> None:
    assert interpreter("fairscale", {"shared": tmp_path}, None) == tmp_path
    assert interpreter("fairscale", {"shared": Path("other"), "fairscale": tmp_path}, None) == tmp_path
    assert interpreter("torch-reentrant", {"shared": tmp_path}, None) == Path(sys.executable)


def test_each_candidate_is_in_at_most_one_environment() -> None:
    names = [name for made in ENVIRONMENTS for name in made.candidates]
    assert len(names) == len(set(names))


@pytest.fixture
def matrix() -> Matrix:
    failed = finding("values/complex", Verdict.FAILED, summary="<b>wrong</b>", found="1 | 2")
    rows = [
        Row("deepspeed", run_of("deepspeed", failed), seconds=3.0),
        Row("torch-reentrant", run_of("torch-reentrant", finding("values/complex", Verdict.PASSED))),
        Row("absent", None, "not installed"),
    ]
    return Matrix(
        rows, list(requirements()), "ckpt-conformance matrix --report DIR", "2026-12-01T00:00:00+00:00", 60.0
    )


def test_the_page_leads_from_the_symbol_to_the_finding_and_escapes_it(matrix: Matrix, tmp_path: Path) -> None:
    write(matrix, tmp_path)
    page = (tmp_path / "matrix.html").read_text()
    assert 'href="#deepspeed--values--complex"' in page
    assert 'id="deepspeed--values--complex"' in page
    assert "&lt;b&gt;wrong&lt;/b&gt;" in page
    assert "<b>wrong" not in page
    assert "<script" not in page


def test_the_page_names_what_could_not_be_run(matrix: Matrix, tmp_path: Path) -> None:
    write(matrix, tmp_path)
    assert "absent: not installed" in (tmp_path / "matrix.html").read_text()
    assert "- absent: not installed" in (tmp_path / "matrix.md").read_text()


def test_the_page_says_what_was_left_out_and_why(matrix: Matrix, tmp_path: Path) -> None:
    write(matrix, tmp_path)
    for page in ("matrix.html", "matrix.md"):
        text = (tmp_path / page).read_text()
        assert all(left.package in text for left in LEFT_OUT)
        assert "Torch not compiled with CUDA enabled" in text


PUBLISHED = sorted({entry.module for entry in catalog.entries() if entry.module != "reference"})


@pytest.mark.parametrize("module", PUBLISHED)
def test_an_entry_says_which_version_was_tried(module: str) -> None:
    source = Path(str(catalog.__file__)).with_name(f"{module}.py").read_text()
    assert "Tried with" in source


def test_a_finding_leads_to_the_scripts_of_its_cause(matrix: Matrix, tmp_path: Path) -> None:
    write(matrix, tmp_path)
    page = (tmp_path / "matrix.html").read_text()
    assert '<a href="findings/complex_output_loses_its_graph.py">' in page
    assert '<a href="findings.md#deepspeed-complex">' in page


def test_the_data_says_what_every_candidate_came_to(matrix: Matrix, tmp_path: Path) -> None:
    write(matrix, tmp_path)
    data = json.loads((tmp_path / "matrix.json").read_text())
    first = data["candidates"][0]
    assert data["schema"] == 1
    assert first["counts"] == {"failed": 1}
    assert first["findings"][0]["cause"] == "deepspeed-complex"
    assert data["candidates"][2] == {"name": "absent", "problem": "not installed", "seconds": 0.0}


def test_a_family_is_as_bad_as_its_worst_requirement(matrix: Matrix) -> None:
    bad, good = matrix.rollup("deepspeed", "values"), matrix.rollup("torch-reentrant", "values")
    assert (bad.passed, bad.failed, bad.applicable, bad.tone) == (0, 1, 1, "bad")
    assert (good.passed, good.failed, good.applicable, good.tone) == (1, 0, 1, "good")
    assert matrix.rollup("deepspeed", "rng").tone == "none"


def test_the_findings_group_failures_by_cause(matrix: Matrix, tmp_path: Path) -> None:
    write(matrix, tmp_path)
    text = (tmp_path / "findings.md").read_text()
    assert "### DeepSpeed: a complex output loses its graph" in text
    assert "`values/complex` (deepspeed)" in text
    assert "Not looked into yet" not in text
