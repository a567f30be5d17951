"""torch.utils.checkpoint: https://docs.pytorch.org/docs/stable/checkpoint.html."""

from __future__ import annotations

from functools import partial

from torch.utils.checkpoint import checkpoint

from ckpt_conformance.candidate import Candidate

REENTRANT = Candidate.from_function(
    partial(checkpoint, use_reentrant=True), name="torch-reentrant", distribution="torch"
)

NONREENTRANT = Candidate.from_function(
    partial(checkpoint, use_reentrant=False),
    name="torch-nonreentrant",
    distribution="torch",
    capabilities={
        "kwargs", "containers", "output-containers", "non-tensors", "autograd-grad", "inputs", "retain-graph",
        "double-backward", "rng",
    },
)  # fmt: skip
