"""megatron-core's checkpoint functions on a machine without a GPU or triton; used by the scripts next to it."""

import importlib
import importlib.util
import sys
import types

import torch


def load():
    """`megatron.core.tensor_parallel.random`, with what a machine without a GPU lacks stood in for."""
    if importlib.util.find_spec("triton") is None:
        kernels = types.ModuleType("megatron.core.transformer.moe.ops.paged_stash")
        kernels.GLOBAL_BLOCK_SIZE = 1024
        kernels.paged_stash_copy_kernel = kernels.paged_stash_pop_kernel = None
        sys.modules[kernels.__name__] = kernels
    random = importlib.import_module("megatron.core.tensor_parallel.random")
    if not torch.cuda.is_available():
        random._get_cuda_rng_state = lambda *_, **__: torch.zeros(16, dtype=torch.uint8)
        random._set_cuda_rng_state = lambda *_, **__: None
    return random
