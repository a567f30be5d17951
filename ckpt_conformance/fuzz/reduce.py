"""Make a program that differs smaller, by editing its source while the difference stays."""

from __future__ import annotations

from collections.abc import Callable

from ckpt_conformance.fuzz.edits import EDITS, Edit
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.traits import traits


def reduced(
    program: Program, keeps: Callable[[Program], bool], tired: Callable[[], bool] = lambda: False
) -> Program:
    """The smallest program that the edits lead to.

    An edit counts where the smaller program keeps the difference and does nothing that the larger one did
    not: else one difference could turn into another on the way.

    Args:
        program: One that differs.
        keeps: Whether another program is valid and differs in the same way.
        tired: Whether to stop with what there is.
    """
    before, tried = None, {program}

    def new(smaller: Program) -> bool:
        if smaller in tried:
            return False
        tried.add(smaller)
        return keeps(smaller)

    while before != program and not tired():
        before = program
        for edit in EDITS:
            program = _swept(program, edit, new, tired)
    return program


def _swept(
    program: Program, edit: Edit, keeps: Callable[[Program], bool], tired: Callable[[], bool]
) -> Program:
    """One edit tried everywhere, from the end: what comes late uses what comes before."""
    place = edit.places(program) - 1
    while place >= 0 and not tired():
        smaller = edit(program, place)
        if smaller and _simpler(smaller, program, edit.brings) and keeps(smaller):
            program = smaller
            place = min(place, edit.places(program))
        place -= 1
    return program


def _simpler(smaller: Program, program: Program, brings: frozenset[str]) -> bool:
    try:
        return smaller != program and traits(smaller) <= traits(program) | brings
    except SyntaxError:  # it has emptied a block
        return False
