"""DeepSpeed's activation checkpointing: https://deepspeed.readthedocs.io/en/latest/activation-checkpointing.html.

Tried with 0.19.8. The docs promise dropout that is equal in the recompute (`rng`). On a machine without an
accelerator DeepSpeed takes the CPU for one by itself; nothing is configured, as its docs allow.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.forwards import call, running


def deepspeed() -> Candidate:
    """`checkpointing.checkpoint(function, *args)`: reentrant, positional inputs."""
    import deepspeed as package

    return Candidate.from_function(
        package.checkpointing.checkpoint, name="deepspeed", distribution="deepspeed", capabilities={"rng"}
    )


def deepspeed_nonreentrant() -> Candidate:
    """`checkpointing.non_reentrant_checkpoint(function, *args)`."""
    import deepspeed as package

    return Candidate.from_function(
        package.checkpointing.non_reentrant_checkpoint,
        name="deepspeed-nonreentrant",
        distribution="deepspeed",
        capabilities={"rng"},
    )


def deepspeed_tiled() -> Candidate:
    """`TiledMLP.apply(fn, module, x, shards, parameters)` with one tile: for an MLP, which has one input."""
    from deepspeed.runtime.sequence_parallel import ulysses_sp

    assert ulysses_sp.TiledMLP
    return Candidate.from_wrapper(
        partial(running, _run_tiled), name="deepspeed-tiled-mlp", distribution="deepspeed", remark="one tile"
    )


def _run_tiled(module: nn.Module, x: Any) -> Any:
    from deepspeed.runtime.sequence_parallel.ulysses_sp import TiledMLP

    return TiledMLP.apply(call, module, x, 1, list(module.parameters()))
