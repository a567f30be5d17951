"""A run as text, and text from candidates made harmless."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckpt_conformance.report.clean import harmless, one_line, shortened
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.report.text import by_cause, render_text, rerun
from tests.unit.report_samples import FAILING, NASTY, STANDARD, finding, run_of


def test_the_text_says_what_failed_why_and_how_to_run_it_again():
    lines = render_text(FAILING, STANDARD).split("\n")
    assert lines[0] == "mylib (function style)"
    assert lines[3:6] == ["rng     1 failed", "views   1 passed", "values  1 failed, 1 advisory"]
    assert lines[7:] == [
        "first cause: rng/mask: mask differs",
        "",
        "FAILED rng/mask (MUST): mask differs",
        "  the standard  Values are right.",
        "  expected      same",
        "  found         other",
        "  trace         a",
        "                b",
        "  why           Wrong values teach nothing.",
        "  how           compute them.",
        "  rerun         ckpt-conformance run mylib.remat:checkpoint --select rng/mask",
        "",
        "FAILED values/sum (MUST): gradient differs",
        "  the standard  Values are right.",
        "  expected      1",
        "  found         2",
        "  why           Wrong values teach nothing.",
        "  how           compute them.",
        "  rerun         ckpt-conformance run mylib.remat:checkpoint --select values/sum",
        "",
        "advisory: values/neat: untidy",
        "",
        "the standard has 5 requirements: 1 passed, 2 failed, 1 advisory, 1 not run",
        "conformance: partial (in 2.0 s)",
        "",
    ]


def test_a_run_that_passes_names_no_cause():
    text = render_text(run_of(*(finding(made.id) for made in STANDARD)), STANDARD)
    assert "first cause" not in text
    assert text.endswith("the standard has 5 requirements: 5 passed\nconformance: full (in 2.0 s)\n")


def test_reasons_are_filled_to_the_width_whatever_the_lines_of_their_docstring():
    def check(candidate: object, lab: object) -> None:
        """Values are right.

        Wrong values teach nothing, and whoever finds them does so late,
        after a long run.

        How: compute them.
        """

    text = render_text(FAILING, [replace(made, check=check) for made in STANDARD])
    assert (
        "  why           Wrong values teach nothing, and whoever finds them does so late, after a long run.\n"
    ) in text


def test_the_command_to_run_again_names_a_style_that_the_name_alone_does_not_tell():
    wrapped = run_of(finding("rng/mask", Verdict.FAILED))
    wrapped = replace(wrapped, candidate=replace(wrapped.candidate, style="wrapper"))
    assert rerun(wrapped, wrapped.findings[0]).endswith(" --select rng/mask --style wrapper")


def test_an_interrupted_run_says_so():
    assert "\ninterrupted: requirements are missing\n" in render_text(run_of(interrupted=True), STANDARD)


def test_findings_of_unknown_families_come_last():
    found = by_cause([finding("zoo/lion"), finding("values/sum"), finding("rng/mask")])
    assert [one.requirement for one in found] == ["rng/mask", "values/sum", "zoo/lion"]


def test_a_requirement_that_the_standard_no_longer_has_is_still_shown():
    text = render_text(run_of(finding("views/gone", Verdict.CRASHED, summary="died")), STANDARD)
    assert "CRASHED views/gone (MUST): died\n  rerun " in text


def test_nothing_from_the_candidate_acts_on_the_terminal_or_the_runner():
    failed = finding("rng/mask", Verdict.FAILED, summary=NASTY, expected=NASTY, found=NASTY, trace=(NASTY,))
    text = render_text(run_of(failed, name=NASTY, target=NASTY), STANDARD)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert not any(line.lstrip().startswith("::") for line in text.split("\n"))
    assert "##[" not in text
    assert text.encode().decode() == text


CLEANED = [
    ("\x1b[31mred", "\\x1b[31mred"),
    ("::error::x", ": :error::x"),
    ("a\n  ::set-output name=a::b", "a\n  : :set-output name=a::b"),
    ("a::b", "a::b"),
    ("##[error]x and ##vso[task]", "## [error]x and ## vso[task]"),
    ("a\r\nb\rc\td", "a\nb\\rc    d"),
    ("\ud800", "\\ud800"),
    ("‮gnp.exe", "\\u202egnp.exe"),
    ("a\u2028b\x85c", "a\\u2028b\\x85c"),
    ("größer ✓", "größer ✓"),
]


@pytest.mark.parametrize(("text", "cleaned"), CLEANED, ids=range(len(CLEANED)))
def test_harmless_text(text, cleaned):
    assert harmless(text) == cleaned


def test_one_line_has_no_line_ends_and_is_short():
    assert one_line("a\n::error::b\n\n c") == "a ::error::b c"
    assert one_line("::error::a") == ": :error::a"
    assert len(one_line("x" * 2**20)) == 300


def test_a_long_text_keeps_its_beginning_and_its_end():
    assert shortened("a" * 50 + "z" * 50, 8) == "aaaaaa ... (92 characters left out) ... zz"
    assert shortened("short", 8) == "short"
