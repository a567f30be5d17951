"""The hunt: generate programs, keep what differs, shrink it, and group by cause."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.groups import Group, alike, enter
from ckpt_conformance.fuzz.oracle import Difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.reduce import reduced
from ckpt_conformance.fuzz.worker import Answer, Worker

T = TypeVar("T")

_CHOICES = st.binary(min_size=64, max_size=64)
"""Choices, a byte each. A program takes 20 to 60; with a draw for each, they took longer than to run it."""


@dataclass(slots=True)
class Catch:
    """What a hunt brought home.

    Attributes:
        programs: How many were compared.
        useless: Why the plain run says nothing, for each of the programs where it does.
        groups: The differences by cause; refusals are among them, marked.
        seconds: How long it took.
    """

    programs: int = 0
    useless: list[str] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, answer: Answer) -> None:
        """Count one program."""
        self.programs += 1
        if answer.useless:
            self.useless.append(answer.useless)

    def faults(self) -> list[Group]:
        """The groups that are neither refusals nor rounding."""
        return [group for group in self.groups if group.difference.fault]


SHRINKING = 30.0
"""How many seconds one difference is shrunk for: programs that hang take long to shrink."""

_ROUND = 1000
"""How many programs Hypothesis draws in one go, before progress is told."""


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
        progress: Called after each new cause and after each round.
        catch: What is known already, such as what a replay gave; the differences are added to it.
    """
    started, catch, round_ = time.monotonic(), catch or Catch(), 0
    examples += catch.programs

    def late() -> bool:
        return time.monotonic() - started > seconds

    def tell() -> None:
        catch.seconds = time.monotonic() - started
        progress(catch)

    while catch.programs < examples and not late():
        here = _Hunt(ask, catch, late, tell)
        _round(here, min(examples - catch.programs, _ROUND), start * 1_000_003 + round_)
        round_ += 1
        tell()
    return catch


@dataclass(frozen=True, slots=True)
class _Hunt:
    """What a hunt works with: see `hunt`."""

    ask: Callable[[Program], Answer]
    catch: Catch
    late: Callable[[], bool]
    tell: Callable[[], None]


def _round(hunt: _Hunt, examples: int, number: int) -> None:
    """Let Hypothesis draw programs. It is told of no failure: they are made smaller by their source."""

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(programs())
    def look(program: Program) -> None:
        if not hunt.late():
            _look(hunt, program)

    look()


def _look(hunt: _Hunt, program: Program) -> None:
    """Compare one program; of a difference that no group explains, find the smallest program."""
    answer, catch = hunt.ask(program), hunt.catch
    catch.count(answer)
    if answer.difference is None or _explained(catch, program, answer.difference):
        return
    enter(catch.groups, _shrunk(hunt, program, answer.difference))
    hunt.tell()


def _shrunk(hunt: _Hunt, program: Program, found: Difference) -> Group:
    deadline = time.monotonic() + SHRINKING
    shown = {program: found}

    def keeps(smaller: Program) -> bool:
        answer = hunt.ask(smaller)
        if answer.difference is None or not alike(answer.difference, found):
            return False
        shown[smaller] = answer.difference
        return True

    # a smaller program may hang though this one does not
    with hunt.ask.hurried() if isinstance(hunt.ask, Worker) else contextlib.nullcontext():
        smallest = reduced(program, keeps, lambda: hunt.late() or time.monotonic() > deadline)
    return Group(smallest, shown[smallest], aspects=Counter([found.aspect]))


def _explained(catch: Catch, program: Program, found: Difference) -> bool:
    for group in catch.groups:
        if group.explains(program, found):
            group.count_in(found)
            return True
    return False


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
    started, catch = time.monotonic(), Catch()
    for program in corpus:
        answer = ask(program)
        catch.count(answer)
        if answer.difference and not _explained(catch, program, answer.difference):
            enter(catch.groups, Group(program, answer.difference))
    catch.seconds = time.monotonic() - started
    return catch
