"""Expectations are strict, and an update keeps what a person wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_conformance.candidate import Expected
from ckpt_conformance.expectations import read_expectations, render, settled, updated
from ckpt_conformance.report.model import Finding, Verdict

ID = "views/offset-output"


def finding(verdict: Verdict, id_: str = ID) -> Finding:
    return Finding(requirement=id_, level="MUST", verdict=verdict, summary="gradient differs")


@pytest.mark.parametrize(
    ("found", "kind", "becomes"),
    [
        (Verdict.FAILED, "bug", Verdict.EXPECTED),
        (Verdict.CRASHED, "bug", Verdict.EXPECTED),
        (Verdict.HUNG, "unsupported", Verdict.EXPECTED),
        (Verdict.ADVISORY, "bug", Verdict.EXPECTED),
        (Verdict.FAILED, "flaky", Verdict.EXPECTED),
        (Verdict.PASSED, "flaky", Verdict.PASSED),
        (Verdict.PASSED, "bug", Verdict.FAILED),
        (Verdict.PASSED, "unsupported", Verdict.FAILED),
        (Verdict.REFUSED, "unsupported", Verdict.REFUSED),
        (Verdict.NOT_APPLICABLE, "bug", Verdict.NOT_APPLICABLE),
    ],
)
def test_what_an_expectation_makes_of_a_verdict(found: Verdict, kind: str, becomes: Verdict) -> None:
    expected = {ID: Expected("copies on return", kind=kind, issue="mylib#12")}  # type: ignore[arg-type]
    assert settled(finding(found), expected).verdict is becomes


def test_the_reason_and_the_issue_are_told() -> None:
    told = settled(finding(Verdict.FAILED), {ID: Expected("copies on return", issue="mylib#12")})
    assert told.summary == "copies on return (bug, mylib#12): gradient differs"


@pytest.mark.parametrize(("when", "becomes"), [("<2", Verdict.FAILED), (">=2", Verdict.EXPECTED)])
def test_an_expectation_holds_for_the_torch_that_it_names(when: str, becomes: Verdict) -> None:
    assert settled(finding(Verdict.FAILED), {ID: Expected("r", when=when)}).verdict is becomes


def test_an_expectation_about_another_requirement_changes_nothing() -> None:
    failed = finding(Verdict.FAILED)
    assert settled(failed, {"views/other": Expected("r")}) is failed


def test_an_update_keeps_words_drops_what_passes_and_adds_what_fails() -> None:
    old = {
        "views/kept": Expected("a reason", kind="unsupported", issue="mylib#1"),
        "views/passes": Expected("gone"),
        "views/flaky": Expected("now and then", kind="flaky"),
        "views/elsewhere": Expected("old torch", when="<2"),
        "views/not-run": Expected("not asked for"),
    }
    found = [
        finding(Verdict.FAILED, "views/kept"),
        finding(Verdict.PASSED, "views/passes"),
        finding(Verdict.PASSED, "views/flaky"),
        finding(Verdict.PASSED, "views/elsewhere"),
        finding(Verdict.CRASHED, "views/new"),
    ]
    kept = {name: entry for name, entry in old.items() if name != "views/passes"}
    assert updated(old, found) == kept | {"views/new": Expected("not yet explained: gradient differs")}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    expected = {
        "views/a": Expected('a "quoted"\\ reason\nof two lines, \x7f and ü', kind="flaky", when="<2.7"),
        "views/b": Expected("r", issue="mylib#2"),
    }
    file = tmp_path / "conformance.toml"
    file.write_text(render(expected), encoding="utf-8")
    assert read_expectations(file, expected.keys()) == expected
