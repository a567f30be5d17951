"""The gate itself can shut: each of its complaints is provoked."""

from __future__ import annotations

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.standard.registry import requirements
from fixtures.miniatures.isolation import Outcome
from fixtures.miniatures.proof import Row, complaints, fault_of, first_cause, misread, proof_data
from fixtures.miniatures.registry import Miniature

WANTED = [next(made for made in requirements() if made.family == family) for family in ("rng", "values")]
FIRST, SECOND = (made.id for made in WANTED)


def row(breaks: tuple[str, ...], **verdicts: Verdict) -> Row:
    outcomes = {
        made: Outcome(made, verdicts[key], "") for made, key in ((FIRST, "first"), (SECOND, "second"))
    }
    return Row(Miniature("one", "", breaks, (), lambda: PLAIN), outcomes)


def test_open_where_each_requirement_has_a_miniature_that_fails_it_first() -> None:
    rows = [
        row((FIRST,), first=Verdict.FAILED, second=Verdict.PASSED),
        row((SECOND,), first=Verdict.PASSED, second=Verdict.CRASHED),
        row((), first=Verdict.PASSED, second=Verdict.REFUSED),
    ]
    assert complaints(rows, WANTED) == []


def test_shut_where_a_miniature_survives() -> None:
    rows = [row((FIRST,), first=Verdict.PASSED, second=Verdict.PASSED)]
    assert complaints(rows, WANTED[:1]) == [
        f"one does not fail {FIRST}: passed",
        f"{FIRST}: no miniature fails it",
    ]


def test_shut_where_a_right_candidate_fails() -> None:
    rows = [row((), first=Verdict.FAILED, second=Verdict.PASSED)]
    assert complaints(rows, []) == [f"one, which is right, fails {FIRST}: "]


def test_the_first_cause_is_that_of_the_miniature_that_fails_the_same() -> None:
    broad = row((SECOND,), first=Verdict.FAILED, second=Verdict.FAILED)
    assert first_cause(broad, proof_data([broad])) == SECOND
    assert misread([broad]) == []


def test_without_its_own_row_a_broad_fault_reads_as_the_first_family_that_fails() -> None:
    broad = row((SECOND,), first=Verdict.FAILED, second=Verdict.FAILED)
    assert first_cause(broad, []) == FIRST
    assert misread([broad], without_itself=True) == [broad]


def test_a_miniature_that_fails_by_advice_alone_reads_as_what_it_was_made_for() -> None:
    advised = row((SECOND,), first=Verdict.ADVISORY, second=Verdict.ADVISORY)
    assert first_cause(advised, []) == SECOND


def test_the_limits_of_a_base_are_not_the_faults_of_its_miniatures() -> None:
    made = row((SECOND,), first=Verdict.FAILED, second=Verdict.FAILED)
    limited = Row(made.miniature, made.outcomes, frozenset({FIRST}))
    assert fault_of(limited).fails == {SECOND}


def test_shut_where_a_miniature_names_no_requirement() -> None:
    rows = [row(("values/of-the-moon",), first=Verdict.PASSED, second=Verdict.PASSED)]
    assert complaints(rows, []) == ["one is made to fail values/of-the-moon, which does not exist"]
