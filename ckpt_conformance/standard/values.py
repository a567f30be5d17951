"""values: outputs and gradients equal the plain run's, bit by bit."""

from __future__ import annotations

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import mlp
from ckpt_conformance.standard.compare import expect_like_plain
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, requirement


@requirement(
    "values/gradients-of-inputs-and-parameters", MUST, since="2026.12", source="pytorch/pytorch#23822"
)
def gradients_of_inputs_and_parameters(candidate: Candidate, lab: Lab) -> None:
    """Outputs and the gradients of inputs and of parameters captured by closure equal the plain run's.

    Checkpointing is a memory decision: it must not change what is learnt. A recompute that is joined to the
    outer graph counts gradients twice; one that misses a parameter freezes it, and the loss still goes down.

    How: cut the recompute's graph off the outer one (detached inputs), and let the engine reach parameters
    through it, or keep the original graph and refill its saved tensors.
    """
    expect_like_plain(candidate, lab, mlp)
