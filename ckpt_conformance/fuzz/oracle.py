"""Compare what two runs of a program showed, and name the first difference by its cause."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.fuzz.around import CHANGED
from ckpt_conformance.fuzz.blocks import STATISTICS
from ckpt_conformance.fuzz.execute import Sight, execute
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.raised import PROGRAM
from ckpt_conformance.fuzz.rounding import gap, leeways, past, ulps
from ckpt_conformance.fuzz.state import LEFT_CHANGED, PIECES
from ckpt_conformance.fuzz.wavering import WRONG

CLEAR_REFUSALS = frozenset(
    {"NotImplementedError", "RuntimeError", "TypeError", "ValueError", "CheckpointError"}
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which a candidate's run differs from the plain run.

    Attributes:
        aspect: What differs, without names or numbers of this program: differences are grouped by it.
        detail: The difference in this program.
        refusal: Whether it is a clear error over something that the candidate may leave out.
        by: Who raised an error; see `raised_by`.
    """

    aspect: str
    detail: str
    refusal: bool = False
    by: str = ""

    @property
    def fault(self) -> bool:
        """Whether a user would call it one: no refusal, and more than rounding that may differ."""
        return not self.refusal and not self.aspect.endswith(_MAY)


_RESULT, _GRADIENT, _LEAF = "a result differs", "a gradient differs", "a leaf differs"
SILENT = "a gradient differs and no error says so"
"""The aspect of a region that gives something else when it runs again, which a candidate did not notice."""
LAST_BITS = " in its last bits"
"""How the aspect of a difference goes on that rounding may explain."""
_MAY = ", as it may"

NEEDS = {
    "plan-twice": "retain-graph", "plan-grad": "autograd-grad", "call-keyword": "kwargs",
    "call-container": "containers", "call-tuple": "containers", "call-dataclass": "containers",
    "call-rebound": "containers", "call-generator": "generators", "inner-backward": "autograd-grad",
    "returns-list": "output-containers", "returns-dict": "output-containers", "returns-extras": "non-tensors",
    "returns-nothing": "non-tensors", "call-extras": "non-tensors", "plan-inputs": "inputs",
    "plan-second": "double-backward",
    "function-mode": "modes", "dispatch-mode": "modes",
    "dropout": "rng", "dropout-in-place": "rng", "dropout-again": "rng", "alpha-dropout": "rng",
    "noise": "rng", "rrelu": "rng",
}  # fmt: skip
"""Features of a program that a candidate may refuse, and the capability that promises them."""

_IN_BACKWARD = frozenset({"plan-twice", "plan-grad", "plan-inputs", "plan-second", "inner-backward"})
"""What a candidate cannot know before backward comes; anything else it has to refuse in forward."""


def difference(program: Program, candidate: Candidate, plain: Sight, found: Sight) -> Difference | None:
    """The first difference in order of cause, or None.

    Numbers that may differ come behind whatever they cannot bring about.
    """
    first = next(_in_order(program, candidate, plain, found), None)
    if first is None or not _of_values(first):
        return first
    for leeway in leeways(program, plain):
        rest = past(program, plain, found, leeway)
        if rest is not None and (why := leeway.why()):
            return difference(program, candidate, plain, rest) or _excused(first, leeway.what, why)
    return first


def _excused(found: Difference, what: str, why: str) -> Difference:
    aspect = f"{found.aspect.removesuffix(LAST_BITS)} {what}{_MAY}"
    return replace(found, aspect=aspect, detail=f"{found.detail}; {why}")


def _of_values(found: Difference) -> bool:
    """Whether numbers alone differ, which rounding may explain."""
    return found.aspect.removesuffix(LAST_BITS) in {_RESULT, _GRADIENT, _LEAF}


def _in_order(program: Program, candidate: Candidate, plain: Sight, found: Sight) -> Iterator[Difference]:
    if program.plan == "spent" and found.stage not in {"forward", "backward"}:
        yield from _on_freed_graph(plain, found)
    elif CHANGED in program.features:
        yield from _on_change(program, candidate, plain, found)
    elif found.error is not None:
        yield _raised(program, candidate, found)
    else:
        yield from _differences(program, candidate, plain, found)


def useless(program: Program, plain: Sight) -> str:
    """Why the plain run says nothing, where it raises or is wrong unmeant; empty where it says something."""
    if plain.heard[WRONG]:
        return "a gradient is wrong in the plain run"
    meant = plain.stage == "freed graph" or (CHANGED in program.features and plain.stage == "backward")
    return "" if plain.error is None or meant else f"the plain run raises {': '.join(plain.error)}"


def _on_freed_graph(plain: Sight, found: Sight) -> Iterator[Difference]:
    """The plain run raises if it had saved anything; a candidate may raise there in any words, and must."""
    yield from _left_changed(plain, found)
    if plain.error is not None and found.error is None:
        yield Difference("no error where the plain run has one", " ".join(plain.error))


def _on_change(program: Program, candidate: Candidate, plain: Sight, found: Sight) -> Iterator[Difference]:
    """A tensor that a graph may have saved was changed: an error, or what unchanged ones would give.

    Where the plain run has no error the change did no harm; a candidate that recomputes cannot know that.
    """
    if found.error is not None and _clear(found):
        yield from _left_changed(plain, found)
    elif found.error is not None:
        yield _raised(program, candidate, found)
    elif plain.error is None:
        yield from _differences(program, candidate, plain, found)
    elif not _with_unchanged(program, found):
        yield Difference("no error where the plain run has one", " ".join(plain.error))


def _with_unchanged(program: Program, found: Sight) -> bool:
    """Whether gradients are those of the tensors as they were saved: a copy of them was kept."""
    if "rrelu" in program.features:
        return True  # it fills its noise after that was saved: no copy that is made then tells
    right = execute(program, PLAIN, lambda: saved_tensors_hooks(Tensor.clone, lambda tensor: tensor))
    return next(_leaf_differences(PLAIN, right, found), None) is None


def _raised(program: Program, candidate: Candidate, found: Sight) -> Difference:
    kind, message = found.error or ("", "")
    refusable = NEEDS.keys() if found.stage == "forward" else _IN_BACKWARD
    left_out = {NEEDS[name] for name in program.features & refusable} - candidate.capabilities
    refusal = bool(left_out) and _clear(found)
    return Difference(f"{found.stage} raises {kind}: {_without_numbers(message)}", message, refusal, found.by)


def _clear(found: Sight) -> bool:
    """Whether an error tells that something is not supported.

    What is no error of torch's and comes out of the program's own lines tells no such thing: there the
    candidate has handed the program something else than it should.
    """
    kind, message = found.error or ("", "")
    stumbled = found.by == PROGRAM and kind not in {"RuntimeError", "NotImplementedError"}
    return kind in CLEAR_REFUSALS and bool(message) and "allocate memory" not in message and not stumbled


def _without_numbers(message: str) -> str:
    return re.sub(r"\d+", "N", message)[:100]


def _left_changed(plain: Sight, found: Sight) -> Iterator[Difference]:
    for want, got in zip(plain.states, found.states, strict=False):
        for piece, before, after in zip(PIECES, want, got, strict=True):
            if before != after:
                yield Difference(LEFT_CHANGED + piece, f"{before} became {after}")


def _differences(program: Program, candidate: Candidate, plain: Sight, found: Sight) -> Iterator[Difference]:
    yield from _left_changed(plain, found)
    for want, got in zip(plain.rng, found.rng, strict=False):
        if not torch.equal(want, got):
            yield Difference("the generator is left elsewhere", "its state differs from the plain run's")
    if plain.forms != found.forms:
        yield Difference("a region gives something else", f"{plain.forms} became {found.forms}")
    for number, (want, got) in enumerate(zip(plain.results, found.results, strict=False)):
        yield from _unequal(_RESULT, f"result {number}", want, got)
    # a recompute runs a backward that the region itself asks for again, and with it that one's hooks
    if plain.heard != found.heard and "inner-backward" not in program.features:
        yield _heard(plain, found)
    if plain.needs != found.needs:
        yield Difference("requires_grad of the result differs", f"{plain.needs} became {found.needs}")
    yield from _leaf_differences(candidate, plain, found)
    yield from _bounds(program, plain, found)


def _heard(plain: Sight, found: Sight) -> Difference:
    """What was heard otherwise: a hook, or what a region found that differs when it runs again."""
    if found.heard[WRONG]:
        return Difference(
            SILENT, "a region whose second run differs: neither the right gradient nor an error"
        )
    return Difference(
        "hooks are called another number of times", f"{dict(plain.heard)} became {dict(found.heard)}"
    )


def _leaf_differences(candidate: Candidate, plain: Sight, found: Sight) -> Iterator[Difference]:
    for name, want in plain.gradients.items():
        yield from _unequal(_GRADIENT, f"gradient of {name}", want, found.gradients.get(name))
    for name, value in plain.leaves.items():
        # what a module gathers, it gathers in each run
        gathers = name.startswith(STATISTICS)
        if gathers and (name.startswith(STATISTICS[1]) or "batch-statistics" not in candidate.capabilities):
            continue
        yield from _unequal(_LEAF, name, value, found.leaves.get(name))
    if plain.versions != found.versions:
        yield Difference("a version counter of a leaf moved", f"{plain.versions} became {found.versions}")
    if plain.replaced != found.replaced:
        yield Difference("a gradient is another tensor", f"{plain.replaced} became {found.replaced}")
    if plain.trained != found.trained:
        changed = ", ".join(sorted(plain.trained ^ found.trained))
        yield Difference("requires_grad of a leaf is changed", changed)
    if plain.marks != found.marks:
        yield Difference("leaves are given attributes", f"{plain.marks} became {found.marks}")


_UNBOUNDED = {"plan-second", "plan-inputs", "plan-none", "gradient-kept"}
"""Features by which a graph or an output lives on: what lies in it then, the plain run does not bound."""


def _bounds(program: Program, plain: Sight, found: Sight) -> Iterator[Difference]:
    bound = plain.runs * (1 + max(1, found.backwards) * (2**program.depth - 1))
    # an implementation may recompute for a second reading of the same saved tensors, and for a backward
    # that a region asks for while it runs
    if found.runs > bound and not program.features & {"read-twice", "inner-backward"}:
        yield Difference("regions run too often", f"{found.runs} runs, at most {bound} are needed")
    if found.alive[-1] > plain.alive[-1]:
        yield Difference(
            "memory stays alive", f"{found.alive[-1]} storages, {plain.alive[-1]} in the plain run"
        )
    if _UNBOUNDED & program.features:
        return
    for want, got in zip(plain.alive, found.alive, strict=False):
        if got > want:
            yield Difference("memory stays alive after backward", f"{got} storages, {want} in the plain run")


def _unequal(aspect: str, what: str, want: Tensor | None, got: Tensor | None) -> Iterator[Difference]:
    if want is None and got is None:
        return
    if want is None or got is None:
        yield Difference(
            f"{aspect}: one is missing", f"{what}: {'expected none' if want is None else 'is none'}"
        )
    elif want.shape != got.shape or want.dtype != got.dtype:
        yield Difference(
            f"{aspect}: another form",
            f"{what}: {want.dtype}{list(want.shape)} became {got.dtype}{list(got.shape)}",
        )
    elif not torch.allclose(want, got, rtol=0, atol=0, equal_nan=True):
        off = gap(want, got)
        bits = LAST_BITS if off <= ulps(want) else ""
        yield Difference(f"{aspect}{bits}", f"{what}: off by up to {off:.3g}")
