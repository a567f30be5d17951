"""After a recompute that raises, TransformerEngine's checkpoint leaves the generators at the forward's state.

Every later draw repeats numbers that were drawn before. The same with use_reentrant=True. Needs torch,
transformer_engine and a CUDA device. Exit code 1 where the fault shows.
"""

import torch
from transformer_engine.pytorch import checkpoint

calls = []


def region(x):
    calls.append(None)
    if len(calls) > 1:
        raise MemoryError("simulated")
    return x.exp()


torch.manual_seed(0)
y = checkpoint(region, torch.ones(4, device="cuda", requires_grad=True), use_reentrant=False)
first = torch.rand(3, device="cuda")
try:
    y.sum().backward()
except MemoryError:
    pass
again = torch.rand(3, device="cuda")
print("before", first.tolist(), "after", again.tolist())
raise SystemExit(torch.equal(first, again))
