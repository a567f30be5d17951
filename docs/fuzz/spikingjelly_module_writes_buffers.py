"""spikingjelly `checkpoint_module`: every buffer is written in place in the forward, also one that did not change.

A tensor computed from the buffer before can no longer go back.
"""

import torch
from spikingjelly.activation_based.memopt.checkpointing import checkpoint_module


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(3))

    def forward(self, x):
        return x * self.table


def error(wrap):
    layer, x = Layer(), torch.ones(3, requires_grad=True)
    before = x * layer.table
    try:
        (before + wrap(layer)(x)).sum().backward()
    except RuntimeError as raised:
        return str(raised).split(":")[0]
    return None


plain, found = error(lambda layer: layer), error(checkpoint_module)
print("plain:", plain, "checkpointed:", found)
print("reproduced" if found != plain else "not reproduced")
raise SystemExit(found != plain)
