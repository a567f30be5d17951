"""DeepSpeed's checkpoint: a region that returns a tuple of one tensor gives the tensor.

`(y,) = checkpoint(...)` then unpacks the rows, or takes the wrong one. Needs torch and deepspeed. Exit code 1 where
the fault shows.
"""

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import checkpoint

y = checkpoint(lambda x: (x.exp(),), torch.ones(1, 4, requires_grad=True))
print("returned:", type(y).__name__)
raise SystemExit(not isinstance(y, tuple))
