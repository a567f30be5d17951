"""DeepSpeed: a region that returns a dict gives a tuple of its keys; a list comes back as a tuple."""

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import checkpoint, non_reentrant_checkpoint


def region(x):
    return {"sine": x.sin(), "cosine": x.cos()}


x = torch.ones(3, requires_grad=True)
wrong = True
for run in (checkpoint, non_reentrant_checkpoint):
    found = run(region, x)
    print(f"{run.__name__}: the region returns a {type(region(x)).__name__}, the checkpoint gives {found}")
    wrong = wrong and found == ("sine", "cosine")
print("reproduced" if wrong else "not reproduced")
raise SystemExit(wrong)
