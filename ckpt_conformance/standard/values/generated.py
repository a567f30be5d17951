"""values: programs that nobody wrote down, drawn from the fuzzer's grammar."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

import torch

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.execute import execute
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import LAST_BITS, NEEDS, difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.values import Choose
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement

T = TypeVar("T")

SEEDS = range(100)
"""One program each; the same ones in every run."""

_ELSEWHERE = frozenset(
    {
        "ambient-autocast", "anomaly-detection", "asks-who-needs-a-gradient", "caches-a-tensor",
        "call-container", "call-none", "call-rebound", "captures", "cast-cache", "changes-a-tensor",
        "default-dtype", "detach", "device-context", "dispatch-mode", "function-mode", "gradient-kept",
        "hooks-on-a-leaf", "inner-backward", "input-frozen", "input-index", "knows-a-constant", "module",
        "names-an-option", "no-grad", "other-checkpoint", "parameter-view", "plan-elsewhere", "plan-into",
        "plan-none", "plan-spent", "plan-thread", "planned-error", "read-twice", "reads-grad-mode",
        "reads-requires-grad", "region-under-inference-mode", "returns-nothing", "rrelu", "runs-in-a-loop",
        "second-run-differs", "weights-cast-before",
    }
)  # fmt: skip
"""Features that requirements of their own are about."""

_KINDS = {"positional": "call-", "leaf": "input-", "once": "plan-", "tuple": "returns-"}
"""How the features begin that the options of a choice give, by the first one."""

_TOLD = ("a gradient differs", "a result differs", "a leaf differs", "the generator is left elsewhere",
         "forward raises", "backward raises")  # fmt: skip


@requirement(
    "values/generated-programs",
    MUST,
    since="2026.12",
    source="https://docs.pytorch.org/docs/stable/checkpoint.html",
)
def generated_programs(candidate: Candidate, lab: Lab) -> None:
    """Small programs drawn from a grammar give the plain run's results and gradients, bit by bit.

    The other requirements are the faults that somebody has met. Programs that mix operations, views, dtypes,
    layouts and nested regions at random meet those that nobody has.

    How: recompute the region from the same inputs, in the same ambient state, with no special cases for the
    form of an input or of an output. `ckpt-conformance fuzz` tries many more, and shrinks what differs.
    """
    before, prelude.DEVICE = prelude.DEVICE, lab.device.type
    try:
        with torch.random.fork_rng(devices=[lab.device] if lab.device.type == "cuda" else []):
            for seed, program in _programs(candidate):
                _expect_no_difference(seed, program, candidate)
    finally:
        prelude.DEVICE = before


def _programs(candidate: Candidate) -> Iterator[tuple[int, Program]]:
    """The programs that ask for nothing but what the candidate must do or promises."""
    left_out = {feature for feature, needed in NEEDS.items() if needed not in candidate.capabilities}
    avoided = left_out | _ELSEWHERE
    for seed in SEEDS:
        program = make_program(_choosing(seed, avoided))
        if not program.features & avoided:
            yield seed, program


def _choosing(seed: int, avoided: AbstractSet[str]) -> Choose:
    """Random choices without extras, and without the options that give an avoided feature."""
    generator = random.Random(seed)  # noqa: S311 - the same programs each time

    def choose(options: Sequence[T]) -> T:
        first = options[0]
        if first is False or first == "":  # whether there is something out of the ordinary
            return first
        if not isinstance(first, str):
            return generator.choice(options)
        kind = _KINDS.get(first, "")
        return generator.choice([option for option in options if f"{kind}{option}" not in avoided] or options)

    return choose


def _expect_no_difference(seed: int, program: Program, candidate: Candidate) -> None:
    found = difference(program, candidate, execute(program, PLAIN), execute(program, candidate))
    # one node for the region adds up in another order, and gives zeros for what the result does not depend on
    if found is None or not found.fault:
        return
    if LAST_BITS in found.aspect or found.detail.endswith("expected none"):
        return
    if found.aspect.startswith(_TOLD):
        violated(
            f"generated program {seed}: {found.aspect}",
            expected="the plain run's values, bit by bit",
            found=found.detail,
            trace=tuple(program.source().splitlines()),
        )
