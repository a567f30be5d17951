"""Non-reentrant: the default dtype of the forward is not there in the recompute: silently another gradient."""

import torch
from torch.utils.checkpoint import checkpoint


def region(x):
    return (x * (2 if torch.get_default_dtype() == torch.float64 else 3)).sin()


def gradient(run):
    x = torch.ones(1, requires_grad=True)
    torch.set_default_dtype(torch.float64)
    y = run(x)
    torch.set_default_dtype(torch.float32)
    y.sum().backward()
    return x.grad.item()


plain, found = gradient(region), gradient(lambda x: checkpoint(region, x, use_reentrant=False))
print("gradient: plain", plain, "checkpointed", found)
print("reproduced" if plain != found else "not reproduced")
raise SystemExit(plain != found)
