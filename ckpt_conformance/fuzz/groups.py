"""Group programs that differ by what makes them differ, so that one fault is one finding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from ckpt_conformance.fuzz.execute import WITH_A_GRAPH
from ckpt_conformance.fuzz.oracle import LAST_BITS, SILENT, Difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.raised import PROGRAM, TORCH
from ckpt_conformance.fuzz.state import LEFT_CHANGED
from ckpt_conformance.fuzz.traits import traits

_LOST, _EXTRA, _VALUES = "a gradient is lost", "a gradient too many", "wrong values"
_STUMBLES, _FORMS = "the program stumbles", "a region gives something else"
_ALIVE, _AFTER_BACKWARD = "memory stays alive", "memory stays alive after backward"
_OF_VALUES = ("a gradient differs", "a result differs", "a leaf differs", "the generator is left elsewhere")
_AFTER_LOSS = frozenset({
    _LOST, _VALUES, SILENT, "hooks are called another number of times",
    "no error where the plain run has one", _AFTER_BACKWARD,
})  # fmt: skip
"""What follows where a gradient is lost: its hooks have no call, its graph has no error and is not freed."""

_COMPUTES = frozenset({_LOST, _EXTRA, _VALUES, SILENT, _STUMBLES, "raises", "dies"})
"""Ways in which a computation goes wrong; which one it is may hang on what lies in memory."""


_SAY_MANY_THINGS = frozenset({PROGRAM, TORCH})
"""Who raises errors in the same words for many causes."""


@dataclass(slots=True)
class Group:
    """Programs that differ for one cause, shown by the smallest of them.

    Attributes:
        program: The smallest program.
        difference: Its difference.
        count: How many programs of the hunt it explains.
        aspects: The aspects in which they differ, with how many programs show each first.
        causes: What the smallest programs do of the groups that were found to be this one.
    """

    program: Program
    difference: Difference
    count: int = 1
    aspects: Counter[str] = field(default_factory=Counter)
    causes: set[frozenset[str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not self.aspects:
            self.aspects[self.difference.aspect] = self.count

    @property
    def cause(self) -> frozenset[str]:
        """What the smallest program does, beyond what the simplest one does."""
        return traits(self.program)

    def explains(self, program: Program, difference: Difference) -> bool:
        """Whether another program's difference is this one again.

        An error that a statement raises in words of its own is, and one on one line of the candidate's; else
        the program has to do all that a smallest one needs, and its difference has to be of the kind, or
        something that follows from it.
        """
        if difference.fault != self.difference.fault:
            return False
        found, own = traits(program), self.cause
        if same_error(self.difference, difference):
            told = self.difference.by == difference.by and difference.by not in _SAY_MANY_THINGS
            return told or any(cause <= found for cause in self.causes | {own})
        if _same_leftover(self.difference, difference):
            return True
        if own <= found and effect(difference) in _following(effect(self.difference), own):
            return True
        return bool(own) and own == found and {effect(difference), effect(self.difference)} <= _COMPUTES

    def is_again(self, other: Group) -> bool:
        """Whether another group, whose program is shrunk too, shows this one's fault.

        So does one error, or one mark on a leaf, in two programs that share something of what they need. What
        kills the process raises errors about storages elsewhere: both come of memory that is gone.
        """
        if self.explains(other.program, other.difference):
            return True
        if same_error(self.difference, other.difference) or _same_mark(self.difference, other.difference):
            shared = any(_linked(cause, other.cause) for cause in self.causes | {self.cause})
            if shared and self.difference.fault == other.difference.fault:
                return True
        gone = other.difference.fault and _misses_memory(other.difference)
        return gone and effect(self.difference) == "dies" and set() < self.cause <= other.cause

    def count_in(self, difference: Difference) -> None:
        """Count one more program."""
        self.count += 1
        self.aspects[difference.aspect] += 1

    def absorb(self, other: Group) -> None:
        """Take over the programs of a group that is this one again."""
        self.count += other.count
        self.aspects += other.aspects
        self.causes |= {other.cause} | other.causes


def alike(one: Difference, other: Difference) -> bool:
    """Whether two differences are of one kind: the same error, or values gone wrong in the same way."""
    if one.fault != other.fault:
        return False
    if effect(one) == effect(other) == "raises":
        return same_error(one, other)
    return effect(one) == effect(other)


def _following(shown: str, own: frozenset[str]) -> frozenset[str]:
    """What an effect of a program that needs `own` may look like in other programs.

    Errors are told apart by their words, but where it takes something to make the program's own lines
    stumble over what they are given.
    """
    if own and shown in {_STUMBLES, _FORMS}:
        return frozenset({_STUMBLES, _FORMS})
    return _FOLLOWING.get(shown, frozenset({shown}))


_FOLLOWING: Mapping[str, frozenset[str]] = {
    _LOST: _AFTER_LOSS,
    "raises": frozenset(),
    _STUMBLES: frozenset(),
    _VALUES: frozenset({_VALUES, SILENT, _LOST, "a version counter of a leaf moved"}),
    "dies": frozenset({"dies", _VALUES}),
    # a recompute that nobody compares may end in an error as well, later than it should
    SILENT: frozenset({SILENT, _AFTER_BACKWARD}),
    _ALIVE: frozenset({_ALIVE, _AFTER_BACKWARD}),
}


def effect(difference: Difference) -> str:
    """What kind of difference it is; those of one kind come of one another.

    A wrong gradient moves a leaf and with it the next result, and what that draws from the generator.
    """
    aspect = difference.aspect
    if LAST_BITS in aspect:
        return aspect
    if aspect.startswith(("a gradient differs: one is missing", "requires_grad of the result differs")):
        gained = difference.detail.endswith("expected none") or "[False" in difference.detail[:7]
        return _EXTRA if gained else _LOST
    if aspect == SILENT:
        return aspect
    if aspect == _FORMS:
        return _effect_on_graphs(difference) or aspect
    if aspect.startswith(_OF_VALUES):
        return _VALUES
    if aspect.startswith("the process dies"):
        return "dies"
    if error(aspect):
        return _STUMBLES if difference.by == PROGRAM else "raises"
    return aspect


def _effect_on_graphs(difference: Difference) -> str:
    """What a gradient would find, where regions give the same but for the graphs behind it; else empty."""
    want, _, got = difference.detail.partition(" became ")
    if want.replace(WITH_A_GRAPH, "") != got.replace(WITH_A_GRAPH, ""):
        return ""
    return _EXTRA if got.count(WITH_A_GRAPH) > want.count(WITH_A_GRAPH) else _LOST


def error(aspect: str) -> tuple[str, str] | None:
    """The type and the words of an error that a candidate raised, if that is what the aspect tells."""
    told = re.match(r"(?:forward|backward|freed graph|done) raises (\w*): (.*)", aspect, re.DOTALL)
    return (told[1], told[2]) if told else None


def _misses_memory(difference: Difference) -> bool:
    """Whether a difference is an error about memory that is gone."""
    told = error(difference.aspect)
    return told is not None and re.search(r"\bstorage\b|allocated|memory access", told[1]) is not None


_ALIKE = 0.75
"""How much of their words two messages share that are one, with other names or sizes in it."""


def same_error(one: Difference, other: Difference) -> bool:
    """Whether two differences are one error, perhaps in a forward and in a backward."""
    first, second = error(one.aspect), error(other.aspect)
    if first is None or second is None or first[0] != second[0]:
        return False
    return SequenceMatcher(None, first[1], second[1]).ratio() >= _ALIKE


def _same_leftover(one: Difference, other: Difference) -> bool:
    """Whether two programs find the same piece of the ambient state left at the same value."""
    return one.aspect.startswith(LEFT_CHANGED) and (one.aspect, one.detail) == (other.aspect, other.detail)


_MARKS = frozenset({"requires_grad of a leaf is changed", "leaves are given attributes"})
"""What no computation brings about: an implementation does it to a leaf on purpose."""


def _same_mark(one: Difference, other: Difference) -> bool:
    """Whether two programs find one mark on leaves."""
    return one.aspect in _MARKS and one.aspect == other.aspect


def _linked(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two programs share something that they need, beyond the plan of the backward and the like."""
    return any(
        not trait.startswith(("backward: ", "autocast ")) and trait != "an input without a gradient"
        for trait in one & other
    )


def enter(groups: list[Group], group: Group) -> None:
    """Add a group; one that is a known one again is counted there, and shows it if it needs less."""
    for known in groups:
        if known.is_again(group) and not group.cause < known.cause:
            known.absorb(group)
            return
    explained = [known for known in groups if group.is_again(known)]
    for known in explained:
        group.absorb(known)
    place = groups.index(explained[0]) if explained else len(groups)
    groups[:] = [known for known in groups if known not in explained]
    groups.insert(place, group)
