"""The hunt: generate programs, keep what differs, shrink it, and group by cause."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky

from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import Difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.worker import Answer

T = TypeVar("T")

_COMMON = frozenset({"input-leaf", "call-positional", "plan-once", "sin"})
"""What the simplest program has; it is never why a program differs."""
_CHOICES = st.binary(min_size=8, max_size=8)
"""Eight choices, a byte each: a draw of its own for each would take longer than to run the program."""


@dataclass(slots=True)
class Group:
    """Programs that differ for one cause, shown by the smallest of them.

    Attributes:
        program: The smallest program.
        difference: Its difference.
        count: How many programs of the hunt it explains.
    """

    program: Program
    difference: Difference
    count: int = 1

    @property
    def cause(self) -> frozenset[str]:
        """What the smallest program needs, beyond what most programs have."""
        return frozenset(name for name in self.program.features - _COMMON if not name.startswith("consumer-"))

    def explains(self, program: Program, difference: Difference) -> bool:
        """Whether another program's difference is this one again.

        It has the same effect and all that the smallest program needs; of one and the same error, told in
        the same words, anything of that.
        """
        if difference.effect != self.difference.effect:
            return False
        shared = self.cause & program.features
        return shared == self.cause or (" raises " in difference.aspect and bool(shared))


@dataclass(slots=True)
class Catch:
    """What a hunt brought home.

    Attributes:
        programs: How many were compared.
        invalid: How many raised in the plain run, and say nothing.
        groups: The differences by cause; refusals are among them, marked.
        seconds: How long it took.
    """

    programs: int = 0
    invalid: int = 0
    groups: list[Group] = field(default_factory=list)
    seconds: float = 0.0

    def faults(self) -> list[Group]:
        """The groups that are neither refusals nor rounding."""
        return [group for group in self.groups if group.difference.fault]


SHRINKING = 30.0
"""How many seconds one difference is shrunk for: programs that hang take long to shrink."""


class _Differs(Exception):  # noqa: N818 - it ends one shrink, it is no error
    """Tells Hypothesis that a program shows what is being shrunk."""


def _tell() -> NoReturn:
    """Raise from one place: Hypothesis takes errors from two places for two bugs."""
    raise _Differs


def hunt(
    ask: Callable[[Program], Answer],
    *,
    examples: int,
    start: int = 0,
    seconds: float = float("inf"),
    progress: Callable[[Catch], None] = lambda _catch: None,
    catch: Catch | None = None,
) -> Catch:
    """Compare generated programs until `examples` of them were or `seconds` have passed.

    A difference is shrunk when it first shows; later programs that it explains are counted with it.

    Args:
        ask: Compares one program, such as a `Worker`.
        examples: How many programs to compare, shrinking not counted.
        start: The seed.
        seconds: When to stop at the latest, shrinking included.
        progress: Called after each round.
        catch: What is known already, such as what a replay gave; the differences are added to it.
    """
    started, catch, round_ = time.monotonic(), catch or Catch(), 0
    examples += catch.programs

    def late() -> bool:
        return time.monotonic() - started > seconds

    while catch.programs < examples and not late():
        _round(ask, catch, min(examples - catch.programs, 1000), start * 1_000_003 + round_, late)
        round_ += 1
        catch.seconds = time.monotonic() - started
        progress(catch)
    return catch


def _round(
    ask: Callable[[Program], Answer], catch: Catch, examples: int, number: int, late: Callable[[], bool]
) -> None:
    """Run Hypothesis until it has shrunk one new difference, or the examples are used up."""
    shown: dict[Program, Group] = {}
    deadline = float("inf")

    def tired() -> bool:
        return late() or time.monotonic() > deadline

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(programs())
    def differ(program: Program) -> None:
        nonlocal deadline
        if program in shown:
            shown[program] = shown.pop(program)  # the newest is the smallest
            _tell()
        if tired():
            return
        answer = ask(program)
        if not shown:
            catch.programs += 1
            catch.invalid += not answer.valid
        found = answer.difference
        if found is None or (shown and found.aspect != next(iter(shown.values())).difference.aspect):
            return
        if _explained(catch, program, found, count=not shown):
            return
        deadline = min(deadline, time.monotonic() + SHRINKING)
        shown[program] = Group(program, found)
        _tell()

    try:
        differ()
    except (_Differs, Flaky):
        _enter(catch, list(shown.values())[-1])


def _explained(catch: Catch, program: Program, found: Difference, *, count: bool) -> bool:
    for group in catch.groups:
        if group.explains(program, found):
            group.count += count
            return True
    return False


def _enter(catch: Catch, group: Group) -> None:
    """Add a group; one that needs no more than a known one is that one again, shown by a smaller program."""
    for known in catch.groups:
        if group.explains(known.program, known.difference):
            known.program, known.difference = group.program, group.difference
            known.count += group.count
            return
    catch.groups.append(group)


@st.composite
def programs(draw: Any) -> Program:
    """Hypothesis's strategy for programs; it shrinks towards each choice's first option."""
    drawn: Iterator[int] = iter(())

    def choose(options: Sequence[T]) -> T:
        nonlocal drawn
        if len(options) == 1:
            return options[0]
        place = next(drawn, None)
        if place is None:
            drawn = iter(draw(_CHOICES))
            place = next(drawn)
        return options[place % len(options)]

    return make_program(choose)


def replayed(ask: Callable[[Program], Answer], corpus: Sequence[Program]) -> Catch:
    """Compare the programs of a saved corpus, which are small already."""
    started, catch = time.monotonic(), Catch(programs=len(corpus))
    for program in corpus:
        answer = ask(program)
        catch.invalid += not answer.valid
        if answer.difference and not _explained(catch, program, answer.difference, count=True):
            _enter(catch, Group(program, answer.difference))
    catch.seconds = time.monotonic() - started
    return catch
