"""Which known faults explain a run's failures: the findings ordered by cause.

One fault fails many requirements. The proof says which ones each miniature fails, so a set of failures can be
covered with known faults: again and again the one that explains most of what is left. A failure weighs the
more the fewer miniatures show it. What a fault should have failed and did not counts against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Final, TypeAlias

from ckpt_conformance.report.model import Finding, Run, Verdict
from ckpt_conformance.report.proof import Fault, load_proof
from ckpt_conformance.standard.registry import FAMILIES

NEAR: Final = 0.8
"""A fault is no explanation where less than this part of what it should have failed, by weight, failed."""
SAME: Final = 0.9
"""Where more than half of what was judged failed, everything is found among it: then a fault explains it only
where the two sets are the same, but for a tenth by weight."""

Weight: TypeAlias = Callable[[Iterable[str]], float]
Group: TypeAlias = tuple[list[str], Fault | None]
"""Requirements that failed, the one that names the cause first, and the known fault that explains them."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures that go together.

    Attributes:
        findings: The failures, the one that names the cause first.
        fault: The known fault that explains them; None for a failure that stands alone.
    """

    findings: tuple[Finding, ...]
    fault: Fault | None = None

    def told(self, failures: int) -> str:
        """How much of all failures it explains, and what the known fault is; empty for a single failure."""
        if self.fault is None or len(self.findings) < 2:
            return ""
        return f"{len(self.findings)} of {failures} failures are those of a known fault: {self.fault.says}"

    @property
    def named(self) -> Finding:
        """The failure that names the cause."""
        return self.findings[0]


def causes(run: Run, faults: Sequence[Fault] | None = None) -> list[Cause]:
    """The run's failures by cause, in the order of `grouped`.

    Args:
        run: The run.
        faults: The known faults; None for those of the proof that the package brings.
    """
    failed = {finding.requirement: finding for finding in run.failures}
    passed = [finding.requirement for finding in run.findings if finding.verdict is Verdict.PASSED]
    ran = {finding.requirement for finding in run.findings if finding.verdict != Verdict.NOT_APPLICABLE}
    # a run of a few families says nothing of a fault whose own requirement is not among them
    told = [fault for fault in (load_proof() if faults is None else faults) if ran.intersection(fault.breaks)]
    groups = grouped(list(failed), passed, told)
    return [Cause(tuple(failed[made] for made in ids), fault) for ids, fault in groups]


def grouped(failed: Sequence[str], passed: Iterable[str], faults: Sequence[Fault]) -> list[Group]:
    """Group failures by the known faults that explain them; each failure is in one group.

    Args:
        failed: The requirements that failed, in the order of the standard.
        passed: Those that passed; what did neither counts neither for nor against a fault.
        faults: The known faults.

    Returns:
        Groups in the order of the families of what names them: the fault's own requirement, which comes first
        in its group. A failure that no fault explains is a group of its own. What is a limit of a whole shape
        of implementation comes last: it is no news to its author.
    """
    groups: list[Group] = [
        (_named_first([made for made in failed if made in ids], fault), fault)
        for ids, fault in _covered(set(failed), {*failed, *passed}, faults)
    ]
    explained = {made for ids, _ in groups for made in ids}
    groups += [([made], None) for made in failed if made not in explained]
    return sorted(groups, key=lambda group: (group[1] is not None and group[1].shape, by_family(group[0][0])))


def _covered(failed: set[str], judged: set[str], faults: Sequence[Fault]) -> Iterator[tuple[set[str], Fault]]:
    weight, left = _weights(faults), set(failed)
    shown = ((fault, fault.fails & judged) for fault in faults)
    near = [(fault, shows) for fault, shows in shown if _is_near(shows, failed, judged, weight)]
    while near:
        gains = [weight(left & shows) - weight(shows - failed) for _, shows in near]
        most = max(gains)
        if most <= 0:
            return
        fault, shows = near[gains.index(most)]
        yield left & shows, fault
        left -= shows


def _is_near(shows: frozenset[str], failed: set[str], judged: set[str], weight: Weight) -> bool:
    if 2 * len(failed) > len(judged):
        return weight(shows & failed) > SAME * weight(shows | failed)
    return weight(shows & failed) > NEAR * weight(shows)


def _weights(faults: Sequence[Fault]) -> Weight:
    """What a set of failures tells: the sum over them of log(number of faults / faults that show it)."""
    shown = Counter(made for fault in faults for made in fault.fails)
    return lambda ids: sum(log((len(faults) + 1) / max(shown[made], 1)) for made in sorted(ids))


def _named_first(ids: Sequence[str], fault: Fault) -> list[str]:
    own = [made for made in fault.breaks if made in ids]
    return [*own, *sorted((made for made in ids if made not in own), key=by_family)]


def by_family(requirement: str) -> int:
    """The rank of a requirement's family in the order of cause; families that are not known come last."""
    family = requirement.partition("/")[0]
    return FAMILIES.index(family) if family in FAMILIES else len(FAMILIES)
