"""Non-reentrant: `enable_grad` inside `inference_mode` raises, since the region's inputs are saved for backward."""

import torch
from torch.utils.checkpoint import checkpoint

error = None
with torch.inference_mode():
    x = torch.ones(2).sin()
    with torch.enable_grad():
        print("plain:", x.cos().tolist())
        try:
            print("checkpointed:", checkpoint(torch.cos, x, use_reentrant=False).tolist())
        except RuntimeError as raised:
            error = raised
            print("checkpointed:", error)
print("reproduced" if error is not None else "not reproduced")
raise SystemExit(error is not None)
