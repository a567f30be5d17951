"""torch's save_on_cpu fails on a saved tensor of the meta device, where a plain forward runs.

Needs torch alone. Exit code 1 where the fault shows.
"""

import torch
from torch.autograd.graph import save_on_cpu

try:
    with save_on_cpu():
        torch.empty(4, device="meta", requires_grad=True).exp()
except NotImplementedError as error:
    print("the forward raises:", str(error)[:80])
    raise SystemExit(1) from None
print("the forward runs")
