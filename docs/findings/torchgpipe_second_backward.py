"""torchgpipe: a second backward with retain_graph raises `pop from an empty deque`.

Needs torch and torchgpipe. Exit code 1 where the fault shows.
"""

import torch
from torchgpipe.checkpoint import checkpoint

loss = checkpoint(torch.exp, torch.ones(4, requires_grad=True)).sum()
loss.backward(retain_graph=True)
try:
    loss.backward()
except (IndexError, RuntimeError) as error:
    print("second backward raises:", error)
    raise SystemExit(1) from None
print("second backward runs")
