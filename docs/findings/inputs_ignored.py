"""torchgpipe's checkpoint under `backward(inputs=...)` accumulates gradients that were not asked for.

torch's own reentrant version raises. The same with unsloth_zoo's and with tiled MLPs. Needs torch and torchgpipe. Exit
code 1 where the fault shows.
"""

import torch
from torchgpipe.checkpoint import checkpoint

layer = torch.nn.Linear(4, 4)
x = torch.ones(2, 4, requires_grad=True)
y = checkpoint(layer, x)
try:
    y.sum().backward(inputs=[x])
except RuntimeError as error:
    print("refused:", str(error)[:80])
    raise SystemExit(0) from None
print("the weight, which was not asked for, got a gradient:", layer.weight.grad is not None)
raise SystemExit(layer.weight.grad is not None)
