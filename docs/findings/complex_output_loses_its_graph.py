"""DeepSpeed's checkpoint gives a complex output that needs no gradient: the region does not train.

It marks every output that is no floating point tensor as not differentiable, and complex is not floating point.
Needs torch and deepspeed. Exit code 1 where the fault shows.
"""

import torch
from deepspeed.runtime.activation_checkpointing.checkpointing import checkpoint

x = torch.randn(8, requires_grad=True)
plain, checkpointed = torch.fft.fft(x), checkpoint(torch.fft.fft, x)
print("requires_grad: plain", plain.requires_grad, "checkpointed", checkpointed.requires_grad)
raise SystemExit(plain.requires_grad != checkpointed.requires_grad)
