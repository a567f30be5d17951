"""A module that caches one of its activations is never freed after TransformerEngine's non-reentrant checkpoint.

The graph of the recompute keeps the hook that packed its tensors, the hook the region, and the region, through the
cached tensor, that graph: a ring through C++ that the collector cannot see. Every model that is dropped stays.
Needs torch, transformer_engine and a CUDA device. Exit code 1 where the fault shows.
"""

import gc

import torch
from torch.utils.checkpoint import checkpoint as torch_checkpoint
from transformer_engine.pytorch import checkpoint

MIB = 2**20


class Model(torch.nn.Module):
    def forward(self, x):
        self.hidden = x.sin()
        return self.hidden.exp()


def kept(function):
    before = torch.cuda.memory_allocated()
    model = Model()
    x = torch.zeros(4 * MIB, device="cuda", requires_grad=True)
    function(model, x, use_reentrant=False).sum().backward()
    del model, x
    gc.collect()
    return (torch.cuda.memory_allocated() - before) // MIB


print("MiB still allocated with torch's checkpoint:", kept(torch_checkpoint))
mine = kept(checkpoint)
print("MiB still allocated with TransformerEngine's:", mine)
raise SystemExit(mine > 0)
