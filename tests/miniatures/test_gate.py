"""The gate itself can shut: each of its complaints is provoked."""

from __future__ import annotations

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.standard.registry import requirements
from fixtures.miniatures.isolation import Outcome
from fixtures.miniatures.proof import Row, complaints, first_cause, misread
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


def test_a_first_cause_of_another_family_is_told_apart() -> None:
    other = row((SECOND,), first=Verdict.FAILED, second=Verdict.FAILED)
    own = row((FIRST,), first=Verdict.FAILED, second=Verdict.FAILED)
    assert (first_cause(other), misread([other, own])) == (FIRST, [other])


def test_shut_where_a_miniature_names_no_requirement() -> None:
    rows = [row(("values/of-the-moon",), first=Verdict.PASSED, second=Verdict.PASSED)]
    assert complaints(rows, []) == ["one is made to fail values/of-the-moon, which does not exist"]
