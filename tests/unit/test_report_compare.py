"""Two runs of one candidate compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckpt_conformance.report.compare import compare, render_comparison
from ckpt_conformance.report.markdown import render_comparison_markdown
from ckpt_conformance.report.model import ReportError, Verdict
from tests.unit.report_samples import finding, run_of

OLD = run_of(
    finding("rng/mask", Verdict.FAILED, summary="mask"),
    finding("views/split", Verdict.FAILED, summary="split"),
    finding("values/sum"),
    finding("memory/peak", Verdict.HUNG, summary="slow"),
)
NEW = run_of(
    finding("rng/mask"),
    finding("views/split", Verdict.CRASHED, summary="split died"),
    finding("values/sum", Verdict.FAILED, summary="sum"),
    finding("values/neat", Verdict.FAILED, summary="not there before"),
)

TOTALS = "2 NEW, 1 FIXED, 1 SAME, 1 ? (failed before; now not run, refused or expected)"


def test_new_fixed_same_and_unseen_are_told_apart():
    assert render_comparison(compare(OLD, NEW)).split("\n") == [
        "NEW    values/sum: sum",
        "NEW    values/neat: not there before",
        "FIXED  rng/mask: a line",
        "SAME   views/split: split died",
        "?      memory/peak: slow",
        f"{TOTALS} against the run of 2026-12-01T00:00:00+00:00",
        "",
    ]


def test_only_a_new_failure_makes_the_exit_code_1():
    assert compare(OLD, NEW).exit_code == 1
    assert compare(OLD, OLD).exit_code == 0
    assert compare(NEW, run_of(finding("values/sum"))).exit_code == 0


def test_a_failure_that_became_expected_is_neither_new_nor_fixed():
    compared = compare(OLD, run_of(finding("rng/mask", Verdict.EXPECTED)))
    assert compared.appeared == compared.fixed == ()
    assert [one.requirement for one in compared.unseen] == ["rng/mask", "views/split", "memory/peak"]


def test_the_markdown_has_a_row_for_each():
    text = render_comparison_markdown(compare(OLD, NEW))
    assert text.startswith("## mylib: 2 NEW, 1 FIXED, 1 SAME, 1 &#63; (failed before")
    assert "\n| NEW | <code>values/sum</code> | sum |\n" in text
    assert text.count("\n| ") == 7


def test_runs_without_failures_give_no_table():
    clean = run_of(finding("rng/mask"))
    text = render_comparison_markdown(compare(clean, clean))
    assert (
        text
        == "## mylib: 0 NEW, 0 FIXED, 0 SAME against the run of 2026-12-01T00&#58;00&#58;00&#43;00&#58;00\n"
    )


def test_runs_of_different_candidates_are_refused():
    with pytest.raises(ReportError, match=r"differ in their candidate \(mylib and other\): not comparable$"):
        compare(OLD, replace(NEW, candidate=replace(NEW.candidate, name="other")))
