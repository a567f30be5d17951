"""The command line verifies candidates, and says what came of it."""

from __future__ import annotations

import tomllib

from tests.integration.conftest import Shell

GOOD = """
from torch.utils.checkpoint import checkpoint
def good(fn, *args, **kwargs): return checkpoint(fn, *args, use_reentrant=False, **kwargs)
def upside_down(fn, *args, **kwargs): return good(lambda *a: -fn(*a), *args, **kwargs)
"""
SELECT = ["--select", "views/reshape-saved-by-consumer", "rng/dropout-mask"]


def test_a_candidate_that_fails_nothing_ends_with_0(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    ended = shell.run("run", "mine:good", *SELECT)
    assert ended.code == 0, ended.err
    assert "2 passed" in ended.out
    assert "conformance: partial" in ended.out


def test_a_failure_is_told_with_evidence_and_a_script(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    ended = shell.run("run", "mine:upside_down", *SELECT, "--report", "out")
    assert ended.code == 1, ended.err
    assert "FAILED views/reshape-saved-by-consumer (MUST)" in ended.out
    assert "rerun         ckpt-conformance run mine:upside_down --select" in ended.out
    script = shell.findings()["views/reshape-saved-by-consumer"]["script"]
    shell.write("again.py", script)
    again = shell.python("again.py")
    assert (again.code, again.out.rstrip().endswith("reproduced")) == (1, True)


def test_the_callers_pytest_does_not_matter(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    shell.write("pytest.ini", "[pytest]\naddopts = --no-such-option\npython_files = nothing_*.py\n")
    shell.write("conftest.py", "raise RuntimeError('a conftest that must not be loaded')\n")
    ended = shell.run("run", "mine:good", *SELECT, PYTEST_ADDOPTS="-x --nonsense", PYTHONWARNINGS="default")
    assert ended.code == 0, ended.err
    assert "2 passed" in ended.out


def test_expected_failures_conform_and_an_unexpected_pass_does_not(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    entry = '[[expected]]\nid = "{}"\nreason = "turns signs"\nissue = "mine#1"\n'
    shell.write("both.toml", entry.format(SELECT[1]) + entry.format(SELECT[2]))
    known = shell.run("run", "mine:upside_down", *SELECT, "--expect", "both.toml")
    assert known.code == 0, known.out + known.err
    assert "2 expected" in known.out
    passed = shell.run("run", "mine:good", *SELECT, "--expect", "both.toml")
    assert passed.code == 1
    assert passed.out.count("passed, although it is expected to fail") >= 2


def test_expect_update_writes_what_fails_and_keeps_reasons(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    file = shell.write("conformance.toml", f'[[expected]]\nid = "{SELECT[1]}"\nreason = "turns signs"\n')
    written = shell.run("expect", "mine:upside_down", "--update", *SELECT)
    assert written.code == 0
    assert "\nnext: ckpt-conformance run mine:upside_down --expect conformance.toml\n" in written.out
    entries = {entry["id"]: entry for entry in tomllib.loads(file.read_text())["expected"]}
    assert entries[SELECT[1]]["reason"] == "turns signs"
    assert entries[SELECT[2]]["reason"].startswith("not yet explained: ")
    assert shell.run("expect", "mine:good", "--update", *SELECT).code == 0
    assert file.read_text() == ""


def test_without_a_candidate_the_reference_is_verified(shell: Shell) -> None:
    ended = shell.run("run", *SELECT)
    assert ended.code == 0, ended.err
    assert "\n  ckpt-conformance run my.module:checkpoint --report out/\n" in ended.out
    assert "\n  ckpt-conformance init my.module:checkpoint\n" in ended.out


def test_list_names_every_candidate_and_requirement(shell: Shell) -> None:
    candidates = shell.run("list", "candidates").out.splitlines()
    assert "torch-nonreentrant" in candidates
    assert all(" not installed:" in line for line in candidates if "not installed:" in line)
    requirements = shell.run("list", "requirements").out
    assert "MUST   rng/dropout-mask" in requirements


def test_explain_lists_a_family(shell: Shell) -> None:
    said = shell.run("explain", "rng").out
    assert "MUST   rng/dropout-mask\n       Dropout inside a region" in said
    listed = [line.split()[1] for line in said.splitlines() if line.startswith(("MUST", "SHOULD", "MAY"))]
    assert {id_.partition("/")[0] for id_ in listed} == {"rng"}
    assert said.endswith(f"\n{len(listed)} requirements\n")


def test_explain_prints_sentence_reason_and_source(shell: Shell) -> None:
    said = shell.run("explain", "rng/dropout-mask").out
    assert "Why it matters" in said
    assert "How a passing implementation does it" in said
