"""invtorch's checkpoint, and a region that gives a list: the forward is silent, the backward says nothing of lists.

A tensor in a list or dict comes from the dry forward as it is, without the checkpoint's node. A region that gives None
ends in an error that does not say so, either.
"""

import sys

import torch
from invtorch.utils.checkpoint import checkpoint

x = torch.ones(2, requires_grad=True)
messages = []
(result,) = checkpoint(lambda value: [value.sin()], x)
for attempt in (result.sum().backward, lambda: checkpoint(lambda value: None, x)):
    try:
        attempt()
    except Exception as error:
        messages.append(f"{type(error).__name__}: {error}")
print(*messages, sep="\n")

if "dry mode" in messages[0] and "'NoneType' object is not iterable" in messages[1]:
    print("reproduced")
    sys.exit(1)
