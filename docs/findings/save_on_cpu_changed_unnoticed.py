"""torch's save_on_cpu, on the CPU: a saved tensor that is changed before the backward gives a wrong gradient.

Without it autograd raises "modified by an inplace operation". The hook packs `tensor.cpu()`, on the CPU the tensor
itself, and nothing compares versions. Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.autograd.graph import save_on_cpu

x = torch.zeros(4, requires_grad=True)
with save_on_cpu():
    y = x.exp()
loss = y.sum()
with torch.no_grad():
    y.add_(5)
try:
    loss.backward()
except RuntimeError as error:
    print("caught:", str(error)[:80])
    raise SystemExit(0) from None
print("the gradient of exp at 0 is 1, found", x.grad[0].item())
raise SystemExit(x.grad[0].item() != 1)
