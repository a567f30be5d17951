"""One test of one's own for each requirement: `@parametrize_with_checks([CANDIDATE])`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.expectations import check_all, settled
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import Requirement, requirements
from ckpt_conformance.suite.judge import judge
from ckpt_conformance.suite.selection import selected
from ckpt_conformance.suite.traced_lab import traced_lab

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True, slots=True)
class BoundCheck:
    """A requirement as a function of the candidate.

    Attributes:
        requirement: What the candidate is held to.
        lab: Where it runs.
    """

    requirement: Requirement
    lab: Lab

    def __call__(self, candidate: Candidate) -> None:
        """Hold the candidate to the requirement, as a test: it passes, fails, is skipped or xfails."""
        __tracebackhide__ = True
        from ckpt_conformance.suite.outcome import show

        show(settled(judge(self.requirement, candidate, self.lab), candidate.expected_failures))


def parametrize_with_checks(
    candidates: Iterable[Candidate],
    *,
    select: Iterable[str] = (),
    full: bool = False,
    lab: Lab | None = None,
) -> pytest.MarkDecorator:
    """Parametrize a test with `candidate` and `check`, one pair for each requirement of each candidate.

    ```python
    @parametrize_with_checks([CANDIDATE])
    def test_conformance(candidate, check):
        check(candidate)
    ```

    Args:
        candidates: What to verify; `Candidate.expected_failures` says what is known to fail.
        select: Families or requirement ids; all of them when empty.
        full: Whether to run the slow requirements of `--level full` too.
        lab: Where to run; the CPU when None.

    Raises:
        SelectionError: `select` names nothing that exists.
        ExpectationsError: A candidate expects the failure of a requirement that does not exist.
    """
    import pytest

    standard = list(requirements())
    chosen = selected(standard, select, full=full)
    cases = []
    for candidate in candidates:
        check_all(
            f"candidate {candidate.name!r}", candidate.expected_failures, {made.id for made in standard}
        )
        cases += [
            pytest.param(candidate, BoundCheck(made, lab or traced_lab()), id=f"{candidate.name}-{made.id}")
            for made in chosen
        ]
    return pytest.mark.parametrize(("candidate", "check"), cases)
