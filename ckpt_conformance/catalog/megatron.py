"""megatron-core's two checkpoint APIs: https://docs.nvidia.com/megatron-core.

They are in `megatron.core.tensor_parallel.random`, and run as published. What is set up here is what a
machine without a GPU or without triton lacks, nothing that a candidate gets right or wrong: the reader of a
*CUDA* generator's state answers with 16 bytes that mean nothing, and one module of triton kernels for
mixture-of-experts stashing, which no checkpoint uses, is stood in for. Tried with 0.16.1, which restores by
copying, and 0.19.2, which shares storages.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import partial
from types import ModuleType
from typing import Any

import torch

from ckpt_conformance.candidate import Candidate

_KERNELS = "megatron.core.transformer.moe.ops.paged_stash"


def megatron() -> Candidate:
    """`tensor_parallel.checkpoint`: reentrant, positional inputs."""
    random = _random_module()
    return Candidate.from_function(
        partial(_checkpoint, random),
        name="megatron",
        distribution="megatron-core",
        capabilities={"rng"},
    )


def megatron_discard() -> Candidate:
    """`tensor_parallel.CheckpointWithoutOutput`: the output is discarded once the consumer has run."""
    random = _random_module()
    _build_early(random)
    return Candidate.from_discarding(
        # without TransformerEngine any other fp8 than None turns a path on that needs it
        partial(random.CheckpointWithoutOutput, fp8=None),
        name="megatron-discard",
        distribution="megatron-core",
        capabilities={"rng"},
    )


def _checkpoint(random: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call `tensor_parallel.checkpoint` with its second parameter, distribute_saved_activations, off."""
    return random.checkpoint(function, False, *args, **kwargs)


def _random_module() -> Any:
    """The module of both APIs, usable where there is no GPU."""
    if importlib.util.find_spec("triton") is None:
        sys.modules.setdefault(_KERNELS, _absent_kernels())
    random: Any = importlib.import_module("megatron.core.tensor_parallel.random")
    if not torch.cuda.is_available():
        random._get_cuda_rng_state = _no_gpu_state
        random._set_cuda_rng_state = _set_no_gpu_state
    return random


def _build_early(random: Any) -> None:
    """Compile megatron's own extension now.

    It is built in the first backward otherwise, which takes longer than a requirement may. Versions before
    0.17 have none.
    """
    build = getattr(random, "_get_share_storage", None)
    if build is not None:
        build()


def _no_gpu_state(device: Any = "cuda", clone: bool = False, graph_safe: bool = False) -> torch.Tensor:
    """A CUDA generator's state where there is none: 16 bytes, as it has; the CPU's is read apart from it."""
    del device, clone, graph_safe
    return torch.zeros(16, dtype=torch.uint8)


def _set_no_gpu_state(new_state: torch.Tensor, device: int = -1, graph_safe: bool = False) -> None:
    del new_state, device, graph_safe


def _absent_kernels() -> ModuleType:
    kernels: Any = ModuleType(_KERNELS)
    kernels.GLOBAL_BLOCK_SIZE = 1024
    kernels.paged_stash_copy_kernel = kernels.paged_stash_pop_kernel = None
    return kernels  # type: ignore[no-any-return]
