"""values: programs that nobody wrote down, drawn from the fuzzer's grammar."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch

from ckpt_conformance.candidate import PLAIN, Candidate
from ckpt_conformance.fuzz import prelude
from ckpt_conformance.fuzz.execute import execute
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import NEEDS, difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement

SEEDS = range(400)
"""One program each; the same ones in every run. Most ask for something that is no business of this check."""

_ELSEWHERE = frozenset(
    {
        "read-twice",
        "rrelu",
        "call-container",
        "captures",
        "hooks-on-a-leaf",
        "planned-error",
        "detach",
        "no-grad",
        "anomaly-detection",
        "call-none",
        "call-rebound",
        "changes-a-tensor",
        "gradient-kept",
        "inner-backward",
        "input-frozen",
        "knows-a-constant",
        "names-an-option",
        "other-checkpoint",
        "parameter-view",
        "reads-grad-mode",
        "reads-requires-grad",
        "returns-nothing",
        "weights-cast-before",
    }
)
"""Features that requirements of their own are about."""

_TOLD = ("values", "forward raises", "backward raises")


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
    for seed in SEEDS:
        program = make_program(random.Random(seed).choice)  # noqa: S311 - the same programs each time
        if not program.features & (left_out | _ELSEWHERE) and program.plan != "spent":
            yield seed, program


def _expect_no_difference(seed: int, program: Program, candidate: Candidate) -> None:
    found = difference(program, candidate, execute(program, PLAIN), execute(program, candidate))
    if found is not None and found.effect.startswith(_TOLD):
        violated(
            f"generated program {seed}: {found.aspect}",
            expected="the plain run's values, bit by bit",
            found=found.detail,
            trace=tuple(program.source().splitlines()),
        )
