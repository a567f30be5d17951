"""Non-reentrant: a backward under `set_default_device` leaves torch's record of the current device behind.

The recompute enters the `DeviceContext` of the forward again, the very object that is active; it then takes its own
device for the one to put back. New tensors are where they should be; what torch.compile guards on is not.
"""

import torch
from torch.utils import _device
from torch.utils.checkpoint import checkpoint

x = torch.ones(3, requires_grad=True)
torch.set_default_device("meta")
checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
torch.set_default_device(None)

left = _device.CURRENT_DEVICE
print(
    "current device after set_default_device(None):",
    left,
    "expected None; new tensors are on",
    torch.empty(1).device,
)
print("reproduced" if left is not None else "not reproduced")
raise SystemExit(left is not None)
