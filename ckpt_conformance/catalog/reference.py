"""The bundled reference in its three shapes: function, discarding, and the older reentrant one.

Functions and not constants: making the discarding one may compile the storage sharing.
"""

from __future__ import annotations

from ckpt_conformance.candidate import Candidate

_CAPABILITIES = frozenset(
    {
        "kwargs", "containers", "output-containers", "non-tensors", "autograd-grad", "inputs", "retain-graph",
        "double-backward", "forward-ad", "rng", "generators", "modes", "threads", "subclasses",
    }
)  # fmt: skip


def reference() -> Candidate:
    """`reference.checkpoint`, on saved-tensor hooks."""
    from ckpt_conformance.reference import checkpoint

    return Candidate.from_function(
        checkpoint,
        name="reference",
        distribution="ckpt-conformance",
        capabilities=_CAPABILITIES,
        remark="saved-tensor hooks; shares no storage, so needs no compiler",
    )


def reference_discard() -> Candidate:
    """`reference.CheckpointWithoutOutput`; compiles the storage sharing where that is not in the cache."""
    from ckpt_conformance.reference import CheckpointWithoutOutput, backend

    return Candidate.from_discarding(
        CheckpointWithoutOutput,
        name="reference-discard",
        distribution="ckpt-conformance",
        capabilities=_CAPABILITIES,
        remark=backend().remark,
    )
