"""unsloth_zoo's checkpoint, and a first input of integers (token numbers, an index) beside one that needs a gradient.

The forward runs. The backward makes the first input, whatever it is, need a gradient, which an integer cannot; of a
frozen first input it computes a gradient that nobody has asked for.
"""

import os
import sys

import torch

for switch in ("GPU_INIT", "DOUBLE_BUFFER", "PINNED_MEMORY"):
    if not torch.cuda.is_available():
        os.environ.setdefault(("UNSLOTH_ZOO_DISABLE_" if switch == "GPU_INIT" else "UNSLOTH_DISABLE_") + switch, "1")
from unsloth_zoo.gradient_checkpointing import (  # noqa: E402
    Unsloth_Offloaded_Gradient_Checkpointer,
    unsloth_gradient_checkpoint,
)

index, table = torch.tensor([0, 1]), torch.ones(2, 3, requires_grad=True)
messages = []
for run in (unsloth_gradient_checkpoint, Unsloth_Offloaded_Gradient_Checkpointer.apply):
    try:
        run(lambda index, table: table[index].sin(), index, table).sum().backward()
    except RuntimeError as error:
        messages.append(str(error))
    print(run.__qualname__, messages[-1:])

if messages == ["only Tensors of floating point dtype can require gradients"] * 2:
    print("reproduced")
    sys.exit(1)
