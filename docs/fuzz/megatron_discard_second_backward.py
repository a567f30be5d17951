"""megatron-core's CheckpointWithoutOutput: a second backward through a kept graph ends in an unclear error.

What the recompute gave is let go by the first backward (`ctx.outputs`), also where that was told `retain_graph=True`.
"""

import sys
import types

import torch

kernels = dict.fromkeys(("paged_stash_copy_kernel", "paged_stash_pop_kernel"))  # triton's, of no use here
kernels = types.SimpleNamespace(GLOBAL_BLOCK_SIZE=1024, **kernels)
sys.modules.setdefault("megatron.core.transformer.moe.ops.paged_stash", kernels)
from megatron.core.tensor_parallel import random  # noqa: E402

if not torch.cuda.is_available():
    random._get_cuda_rng_state = random._set_cuda_rng_state = lambda *_, **__: torch.zeros(16).byte()

x = torch.ones(2, requires_grad=True)
use = random.CheckpointWithoutOutput(fp8=None)
result = use.checkpoint(torch.sin, x).exp()
use.discard_output_and_register_recompute(result)
result.sum().backward(retain_graph=True)
message = ""
try:
    result.sum().backward()
except TypeError as error:
    message = str(error)
print("second backward:", message)

if message == "'NoneType' object is not iterable":
    print("reproduced")
    sys.exit(1)
