"""The record of a run: what it adds up to, its data, and its schema."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import jsonschema
import pytest

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.report.conformance import conformance, denominator
from ckpt_conformance.report.model import Conformance, Run, Verdict
from ckpt_conformance.report.record import facts
from ckpt_conformance.report.validate import problem_of, report_schema
from tests.unit.report_samples import FAILING, STANDARD, finding, requirement, run_of

ALL_PASS = [finding(made.id) for made in STANDARD]


def test_conformance_is_full_when_every_must_passed():
    assert conformance(ALL_PASS, STANDARD) is Conformance.FULL


def test_a_must_that_was_not_run_makes_conformance_partial():
    assert conformance(ALL_PASS[1:], STANDARD) is Conformance.PARTIAL


def test_a_must_that_is_not_applicable_does_not_count():
    findings = [finding("rng/mask", Verdict.NOT_APPLICABLE), *ALL_PASS[1:]]
    assert conformance(findings, STANDARD) is Conformance.FULL


def test_an_advisory_should_leaves_conformance_full():
    findings = [one for one in ALL_PASS if one.requirement != "values/neat"]
    assert conformance([*findings, finding("values/neat", Verdict.ADVISORY)], STANDARD) is Conformance.FULL


@pytest.mark.parametrize("verdict", [Verdict.FAILED, Verdict.CRASHED, Verdict.HUNG, Verdict.EXPECTED])
def test_a_must_that_did_not_pass_makes_conformance_partial(verdict):
    assert conformance([finding("rng/mask", verdict), *ALL_PASS[1:]], STANDARD) is Conformance.PARTIAL


def test_conformance_is_none_when_no_must_passed():
    findings = [finding("rng/mask", Verdict.FAILED), finding("values/neat")]
    assert conformance(findings, STANDARD) is Conformance.NONE


def test_a_must_newer_than_the_pinned_version_does_not_count():
    newer = [*STANDARD, requirement("views/new", since="2027.06")]
    assert conformance(ALL_PASS, newer, version="2026.12") is Conformance.FULL
    assert conformance(ALL_PASS, newer, version="2027.06") is Conformance.PARTIAL


def test_the_denominator_counts_what_was_not_run():
    said = "the standard has 5 requirements: 1 passed, 2 failed, 1 advisory, 1 not run"
    assert denominator(FAILING, STANDARD) == said


def test_the_exit_code_is_1_for_failures_and_for_an_interrupted_run():
    assert [FAILING.exit_code, run_of(*ALL_PASS).exit_code] == [1, 0]
    assert run_of(*ALL_PASS[:2], interrupted=True).exit_code == 1


def test_an_expected_failure_leaves_the_exit_code_0():
    assert run_of(finding("rng/mask", Verdict.EXPECTED)).exit_code == 0


def test_the_data_has_the_fields_of_the_format():
    data = FAILING.to_data()
    assert list(data["candidate"]) == ["name", "style", "target", "capabilities", "distribution", "remark"]
    assert data["counts"] == {"passed": 1, "failed": 2, "advisory": 1}
    assert set(data) == set(report_schema()["required"])
    assert data["candidate"]["capabilities"] == ["kwargs", "rng"]


def test_a_run_survives_its_data():
    assert Run.from_data(json.loads(json.dumps(FAILING.to_data()))) == FAILING


def test_entries_of_a_newer_writer_are_passed_over():
    data = FAILING.to_data()
    data["candidate"]["colour"] = data["findings"][0]["mood"] = data["new"] = "blue"
    assert problem_of(data) is None
    assert Run.from_data(data) == FAILING


def test_the_record_shortens_what_a_candidate_said():
    kept = run_of(finding("rng/mask", Verdict.FAILED, found="x" * 2**20, trace=("t" * 5000,) * 900)).findings[
        0
    ]
    assert kept.found == f"{'x' * 6000} ... (1040576 characters left out) ... {'x' * 2000}"
    assert len(kept.trace) == 200
    assert problem_of(run_of(kept).to_data()) is None


def test_facts_name_the_function_inside_a_partial():
    candidate = Candidate.from_function(json.loads, name="j", distribution="no-such-distribution")
    assert facts(candidate).target == "json:loads"
    assert facts(candidate).distribution == "no-such-distribution"


SPOILT = [
    (("schema",), 2, "report.schema is not 1"),
    (("schema",), True, "report.schema is not 1"),
    (("standard",), "now", "report.standard does not look like ^[0-9]{4}\\.[0-9]{2}$"),
    (
        ("candidate", "style"),
        "odd",
        "report.candidate.style is none of function, discarding, wrapper, context",
    ),
    (("candidate",), [], "report.candidate is no object"),
    (("findings", 0, "verdict"), "fine", None),
    (("findings", 1, "requirement"), "<script>", None),
    (("findings", 1, "trace"), "held", "report.findings[1].trace is no array"),
    (("findings", 0, "script"), 3, "report.findings[0].script is no string or null"),
    (("findings", 0, "found"), "x" * 10_001, "report.findings[0].found is longer than 10000"),
    (("seconds",), -1, "report.seconds is less than 0"),
    (("seconds",), 1e300, "report.seconds is more than 1000000000"),
    (("seconds",), True, "report.seconds is no number"),
    (("counts", "fine"), 3, "report.counts has an unknown entry 'fine'"),
    (("counts", "passed"), 1.5, "report.counts.passed is no integer"),
    (("interrupted",), None, "report.interrupted is no boolean"),
]


@pytest.mark.parametrize(("path", "value", "said"), SPOILT, ids=[str(case[0][-1]) for case in SPOILT])
def test_wrong_data_is_refused_here_and_by_jsonschema(path, value, said):
    data = copy.deepcopy(FAILING.to_data())
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert not jsonschema.Draft202012Validator(report_schema()).is_valid(data)
    problem = problem_of(data)
    assert problem is not None
    assert said is None or problem == said


@pytest.mark.parametrize("missing", report_schema()["required"])
def test_a_missing_field_is_refused_here_and_by_jsonschema(missing):
    data = FAILING.to_data()
    del data[missing]
    assert problem_of(data) == f"report lacks {missing!r}"
    assert not jsonschema.Draft202012Validator(report_schema()).is_valid(data)


@pytest.mark.parametrize("data", [None, [], "report", 3])
def test_what_is_no_object_is_refused(data):
    assert problem_of(data) == "report is no object"


def test_a_good_report_is_accepted_here_and_by_jsonschema():
    jsonschema.Draft202012Validator.check_schema(report_schema())
    jsonschema.validate(FAILING.to_data(), report_schema())
    assert problem_of(FAILING.to_data()) is None


def test_counts_that_do_not_add_up_are_refused():
    assert (
        problem_of(FAILING.to_data() | {"counts": {"passed": 4}})
        == "report.counts does not add up to the findings"
    )


def test_two_findings_for_one_requirement_are_refused():
    twice = replace(FAILING, findings=FAILING.findings * 2).to_data()
    assert problem_of(twice) == "report.findings has 2 findings for values/sum"
