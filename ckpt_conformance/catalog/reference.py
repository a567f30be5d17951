"""The bundled reference in its three shapes: function, discarding, and the older reentrant one.

Functions and not constants: making the discarding one may compile the storage sharing.
"""

from __future__ import annotations

from ckpt_conformance.candidate import Candidate, Expected

_CAPABILITIES = frozenset(
    {
        "kwargs", "containers", "output-containers", "non-tensors", "autograd-grad", "inputs", "retain-graph",
        "double-backward", "forward-ad", "rng", "generators", "modes", "threads", "subclasses",
    }
)  # fmt: skip

_LIMIT = Expected("a limit of the reentrant shape, named in reference/reentrant.py", kind="unsupported")

_REENTRANT_LIMITS = (
    "arguments/dataclass-output",
    "engine/multi-grad-hook",
    "engine/order-of-hooks",
    "engine/parameter-in-two-regions",
    "engine/parameter-used-inside-and-outside",
    "recompute/two-disjoint-backwards",
    "retention/closure-reaching-the-output",
    "retention/floor-with-a-context-cycle",
    "values/side-channel-tensors",
)


def reference() -> Candidate:
    """`reference.checkpoint`, on saved-tensor hooks."""
    from ckpt_conformance.reference import checkpoint

    return Candidate.from_function(
        checkpoint,
        name="reference",
        distribution="ckpt-conformance",
        capabilities=_CAPABILITIES | {"compile"},
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


def reference_reentrant() -> Candidate:
    """`reference.reentrant.Reentrant`: the shape that most frameworks carry, with its limits."""
    from ckpt_conformance.reference.reentrant import Reentrant

    return Candidate.from_function(
        Reentrant(),
        name="reference-reentrant",
        distribution="ckpt-conformance",
        capabilities={
            "kwargs",
            "containers",
            "output-containers",
            "non-tensors",
            "retain-graph",
            "rng",
            "generators",
        },
        expected_failures=dict.fromkeys(_REENTRANT_LIMITS, _LIMIT),
        remark="autograd.Function with a backward of its own inside; reference/reentrant.py names its limits",
    )
