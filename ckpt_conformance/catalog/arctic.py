"""ArcticTraining's checkpoint with offloading: https://github.com/snowflakedb/ArcticTraining.

Tried with 0.8.0. It takes the place of torch's `CheckpointFunction` and keeps the first input on the CPU.
"""

from __future__ import annotations

from typing import Any

from ckpt_conformance.candidate import Candidate


def arctic() -> Candidate:
    """`CheckpointFunctionWithCPUOffload.apply(function, preserve_rng_state, *args)`."""
    import arctic_training.monkey_patches as package

    assert package.CheckpointFunctionWithCPUOffload
    return Candidate.from_function(
        offloaded, name="arctic", distribution="arctic-training", capabilities={"rng"}
    )


def offloaded(fn: Any, *args: Any) -> Any:
    """Call the function as torch's own checkpoint calls what it stands in for."""
    from arctic_training.monkey_patches import CheckpointFunctionWithCPUOffload

    return CheckpointFunctionWithCPUOffload.apply(fn, True, *args)
