"""After a recompute that raises, DeepSpeed's checkpoint leaves the random generator at the forward's state.

Every later draw repeats numbers that were drawn before. The same with fairscale.nn.checkpoint_wrapper.
Needs torch and deepspeed. Exit code 1 where the fault shows.
"""

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import checkpoint

calls = []


def region(x):
    calls.append(None)
    if len(calls) > 1:
        raise MemoryError("simulated")
    return x.exp()


torch.manual_seed(0)
y = checkpoint(region, torch.ones(4, requires_grad=True))
first = torch.rand(3)
try:
    y.sum().backward()
except MemoryError:
    pass
again = torch.rand(3)
print("before", first.tolist(), "after", again.tolist())
raise SystemExit(torch.equal(first, again))
