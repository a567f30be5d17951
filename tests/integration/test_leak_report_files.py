"""The files of a leak report as a user gets them: from pytest, and from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from ckpt_conformance.report.leaks.schema import leak_problem

RECORDED = Path(__file__).parents[2] / "fixtures" / "reports" / "leaks" / "graph-kept.json"
TEST = """
import torch

KEPT = []

def test_keeps(ckpt_leaks):
    with ckpt_leaks(steps=5) as steps:
        for _ in steps:
            KEPT.append(torch.ones(16))

def test_clean(ckpt_leaks):
    with ckpt_leaks(steps=5) as steps:
        for _ in steps:
            torch.ones(16)
"""


def test_pytest_writes_each_tests_report_the_junit_properties_and_the_step_summary(shell):
    shell.write("test_steps.py", TEST)
    summary = shell.write("summary.md", "before\n")
    ended = shell.pytest("--ckpt-leak-report", "out", "--junitxml", "j.xml", GITHUB_STEP_SUMMARY=str(summary))
    assert "1 failed, 1 passed" in ended.out
    assert "leak report: " in ended.out
    folder = shell.folder / "out" / "test_steps.py-test_keeps"
    data = json.loads((folder / "leaks.json").read_text())
    assert leak_problem(data) is None
    assert data["command"] == "pytest test_steps.py::test_keeps"
    leak = data["leaks"][0]
    assert leak["birth"]["stack"][-1]["file"] == "test_steps.py"
    assert leak["remedies"][-1] == {"what": "test_steps.KEPT.clear()", "freed": 128, "problem": ""}
    assert {one.name for one in folder.iterdir()} >= {"leaks.html", "leaks.sarif", "leaks.txt", "summary.md"}
    properties = (shell.folder / "j.xml").read_text()
    assert f'name="ckpt_leaks.{leak["fingerprint"]}" value="NEW held: test_steps.KEPT' in properties
    assert 'name="ckpt_leaks.verdict" value="no leak in 5 steps (2 of warm-up)"' in properties
    assert summary.read_text().startswith("before\n## ")
    clean = shell.folder / "out" / "test_steps.py-test_clean" / "leaks.json"
    assert json.loads(clean.read_text())["leaks"] == []


def test_the_command_renders_a_saved_leak_report(shell):
    assert "tried in a child process" in shell.run("report", str(RECORDED)).out
    ended = shell.run("report", str(RECORDED), "--format", "html", "--output", "page.html")
    assert (ended.code, ended.out) == (0, "written: page.html\n")
    assert (shell.folder / "page.html").read_text().startswith("<!doctype html>")
    assert json.loads(shell.run("report", str(RECORDED), "--format", "sarif").out)["version"] == "2.1.0"


def test_what_is_no_report_is_refused_in_one_line(shell):
    shell.write("other.json", '{"leaks": []}')
    ended = shell.run("report", "other.json")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "ckpt-conformance: error: other.json is no leak report of a known format: report lacks 'schema'\n"
    )
