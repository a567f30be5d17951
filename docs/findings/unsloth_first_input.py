"""unsloth_zoo's offloading checkpoint takes a tensor first; a list there raises an AttributeError.

Its parameter is called hidden_states. Needs torch and unsloth_zoo. Exit code 1 where that shows.
"""

import os

os.environ.setdefault("UNSLOTH_ZOO_DISABLE_GPU_INIT", "1")
os.environ.setdefault("UNSLOTH_DISABLE_DOUBLE_BUFFER", "1")
os.environ.setdefault("UNSLOTH_DISABLE_PINNED_MEMORY", "1")

import torch
from unsloth_zoo.gradient_checkpointing import Unsloth_Offloaded_Gradient_Checkpointer as Checkpointer

x = torch.ones(4, requires_grad=True)
try:
    Checkpointer.apply(lambda pair: pair[0].exp(), [x, x])
except AttributeError as error:
    print("raised:", error)
    raise SystemExit(1) from None
print("a list is taken")
