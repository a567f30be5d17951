"""megatron-core: where a region returns a view of its input, the caller's own memory is freed.

Reading the input after the discard ends the process or gives numbers that nobody wrote. Needs torch and megatron-core.
Exit code 1 where the fault shows.
"""

import torch
from _megatron import load

use = load().CheckpointWithoutOutput(fp8=None)
x = torch.randn(4, 8, requires_grad=True)
y = use.checkpoint(lambda x: x.view(-1), x)
z = y.sin()
use.discard_output_and_register_recompute(z)
print("bytes of the caller's input after the discard:", x.untyped_storage().size(), "of", 4 * 8 * 4)
raise SystemExit(x.untyped_storage().size() == 0)
