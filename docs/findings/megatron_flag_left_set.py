"""megatron-core: `is_checkpointing()` stays True after a region has raised.

Needs torch and megatron-core. Exit code 1 where the fault shows.
"""

import torch
from _megatron import load

random = load()


def region(x):
    raise MemoryError("simulated")


try:
    random.checkpoint(region, False, torch.ones(4, requires_grad=True))
except MemoryError:
    pass
print("is_checkpointing() after the exception:", random.is_checkpointing())
raise SystemExit(random.is_checkpointing())
