"""Failures grouped by the known faults that explain them."""

from __future__ import annotations

from ckpt_conformance.report.diagnosis import causes, grouped
from ckpt_conformance.report.html import render_html
from ckpt_conformance.report.markdown import render_markdown
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.report.proof import Fault, load_proof
from ckpt_conformance.report.text import render_text
from ckpt_conformance.standard.registry import requirements
from tests.unit.report_samples import STANDARD, finding, run_of

PASSED = [f"memory/right-{number}" for number in range(20)]
MASK = Fault("mask", "Draws anew.", ("rng/mask",), frozenset({"rng/mask", "values/sum", "training/curve"}))
VIEWS = Fault("views", "Copies.", ("views/split",), frozenset({"state/flag", "views/split"}))
SHAPE = Fault("shape", "Goes back.", ("engine/hooks",), frozenset({"engine/hooks", "state/mode"}), shape=True)
FAULTS = [MASK, VIEWS, SHAPE]


def test_a_known_fault_names_the_cause_though_another_family_comes_first() -> None:
    assert grouped(["state/flag", "views/split"], PASSED, FAULTS) == [(["views/split", "state/flag"], VIEWS)]


def test_several_faults_explain_what_is_theirs_in_the_order_of_families() -> None:
    failed = ["state/flag", "rng/mask", "views/split", "values/sum", "training/curve"]
    assert grouped(failed, PASSED, FAULTS) == [
        (["rng/mask", "values/sum", "training/curve"], MASK),
        (["views/split", "state/flag"], VIEWS),
    ]


def test_a_failure_that_no_fault_explains_stands_alone() -> None:
    assert grouped(["state/flag", "errors/word"], PASSED, FAULTS[:1]) == [
        (["state/flag"], None),
        (["errors/word"], None),
    ]


def test_a_fault_that_should_have_failed_much_more_is_no_explanation() -> None:
    passed = [*PASSED, "values/sum", "training/curve"]
    assert grouped(["rng/mask"], passed, FAULTS) == [(["rng/mask"], None)]


def test_what_was_not_judged_counts_neither_way() -> None:
    assert grouped(["rng/mask", "values/sum"], PASSED, FAULTS) == [(["rng/mask", "values/sum"], MASK)]


def test_a_fault_is_named_only_where_its_own_requirement_was_run() -> None:
    failures = [finding(made, Verdict.FAILED) for made in ("values/sum", "training/curve")]
    right = [finding(made) for made in PASSED]
    alone = causes(run_of(*failures, *right), FAULTS)
    assert [cause.fault for cause in alone] == [None, None]
    advised = causes(run_of(*failures, *right, finding("rng/mask", Verdict.ADVISORY)), FAULTS)
    assert [cause.fault for cause in advised] == [MASK]


def test_the_limits_of_a_shape_come_last() -> None:
    failed = ["state/mode", "engine/hooks", "values/odd"]
    assert grouped(failed, PASSED, FAULTS) == [
        (["values/odd"], None),
        (["engine/hooks", "state/mode"], SHAPE),
    ]


def test_where_nearly_everything_fails_no_fault_is_named_for_being_among_it() -> None:
    failed = ["state/flag", "rng/mask", "views/split", "values/sum", "training/curve", *PASSED]
    assert [fault for _, fault in grouped(failed, [], FAULTS)] == [None] * len(failed)


def test_where_nearly_everything_fails_the_fault_that_fails_just_that_is_named() -> None:
    broken = Fault("broken", "Gives nothing.", ("values/sum",), frozenset({"values/sum", *PASSED}))
    failed = [*PASSED, "values/sum"]
    assert grouped(failed, ["rng/mask"], [*FAULTS, broken])[0] == (["values/sum", *PASSED], broken)


def test_without_known_faults_the_order_is_that_of_the_families() -> None:
    failed = [finding("values/sum", Verdict.FAILED), finding("rng/mask", Verdict.CRASHED)]
    assert [cause.named.requirement for cause in causes(run_of(*failed), [])] == ["rng/mask", "values/sum"]


def test_every_rendering_says_what_the_failures_have_in_common() -> None:
    known = next(fault for fault in load_proof() if fault.miniature == "autocast.autocast_is_lost")
    lost = [made.id for made in requirements() if made.id in known.fails]
    passed = [finding(f"memory/right-{number}") for number in range(20)]
    run = run_of(*(finding(made, Verdict.FAILED) for made in lost), *passed)
    told = f"{len(lost)} of {len(lost)} failures are those of a known fault: The recompute runs without"
    assert f"first cause: autocast/enabled: a line\n  {told}" in render_text(run, STANDARD)
    assert f"<br>{told.partition(':')[0]}" in render_markdown(run, STANDARD)
    assert f'<span class="facts">{told}' in render_html(run, STANDARD)
