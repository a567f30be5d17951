"""DeepSpeed: a second backward ends in `'NoneType' object is not iterable`; what it needs is gone by then."""

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import checkpoint

x = torch.ones(3, requires_grad=True)
y = checkpoint(torch.sin, x).sum()
y.backward(retain_graph=True)
error = None
try:
    y.backward()
except TypeError as raised:
    error = raised
print("second backward:", repr(error))
print("reproduced" if error is not None else "not reproduced")
raise SystemExit(error is not None)
