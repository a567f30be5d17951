"""A region whose function reaches what was computed from its output is never freed, garbage collection included.

A layer that keeps its last result is the usual case. The node keeps the function after the backward, the function
reaches the result, and the result its graph; autograd's edges are invisible to the collector. The same with most
reentrant versions; with use_reentrant=False all is freed. Needs torch alone. Exit code 1 where the fault shows.
"""

import gc

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint


class Layer(torch.nn.Module):
    def forward(self, x):
        return x.exp()


def kept(use_reentrant):
    layer, x = Layer(), torch.ones(1024, requires_grad=True)
    layer.last = checkpoint(layer, x, use_reentrant=use_reentrant).sin()
    layer.last.sum().backward()
    watched = StorageWeakRef(layer.last.untyped_storage())
    del layer
    gc.collect()
    return not watched.expired()


reentrant, other = kept(True), kept(False)
print("kept: reentrant", reentrant, "non-reentrant", other)
raise SystemExit(reentrant and not other)
