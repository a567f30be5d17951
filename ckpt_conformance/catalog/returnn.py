"""RETURNN's scope, which recomputes what was made inside it, operation by operation: https://returnn.readthedocs.io.

Tried with 1.20261022. Its docstring promises that the random state and autocast are as in the forward. It was
made for weight noise: parameters are reached from everywhere, so there is no function to wrap.
"""

from __future__ import annotations

from ckpt_conformance.candidate import Candidate


def returnn() -> Candidate:
    """`with gradient_checkpoint_scope():`."""
    from returnn.torch.util.gradient_checkpoint import gradient_checkpoint_scope

    return Candidate.from_context(
        gradient_checkpoint_scope, name="returnn", distribution="returnn", capabilities={"rng"}
    )
