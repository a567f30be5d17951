"""transformers: a layer in eval mode is not checkpointed, so a frozen tower in eval mode keeps its activations.

Needs torch and transformers. Exit code 1 where that shows.
"""

from functools import partial

import torch
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

calls = []


class Layer(GradientCheckpointingLayer):
    def forward(self, x):
        calls.append(None)
        return x.exp()


layer = Layer().eval()
layer.gradient_checkpointing = True
layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
layer(torch.ones(4, requires_grad=True)).sum().backward()
print("runs of the layer in forward and backward:", len(calls))
raise SystemExit(len(calls) == 1)
