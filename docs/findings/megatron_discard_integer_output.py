"""megatron-core: a region that returns an integer tensor beside the hidden state ends in an obscure error.

Token indices of a router are the usual case. Needs torch and megatron-core. Exit code 1 where the fault shows.
"""

import torch
from _megatron import load

use = load().CheckpointWithoutOutput(fp8=None)
x = torch.randn(4, 8, requires_grad=True)
try:
    hidden, index = use.checkpoint(lambda x: (x.exp(), x.argmax(-1)), x)
    z = hidden.sin()
    use.discard_output_and_register_recompute(z)
    z.sum().backward()
except (AttributeError, RuntimeError, TypeError) as error:
    print(f"{type(error).__name__}:", str(error)[:120])
    raise SystemExit(1) from None
print("gradient:", x.grad is not None)
