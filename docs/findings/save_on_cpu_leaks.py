"""torch's save_on_cpu, on the CPU: a graph that had no backward is never freed.

The hook packs `tensor.cpu()`, which on the CPU is the tensor itself; where an operation saves its own output, the
output owns its node and the node owns the output. Needs torch alone. Exit code 1 where the fault shows.
"""

import gc

import torch
from torch.autograd.graph import save_on_cpu
from torch.multiprocessing.reductions import StorageWeakRef


def kept(context):
    with context:
        y = torch.randn(1024, requires_grad=True).exp()
    watched = StorageWeakRef(y.untyped_storage())
    del y
    gc.collect()
    return not watched.expired()


plain, offloaded = kept(torch.enable_grad()), kept(save_on_cpu())
print("kept: plain", plain, "save_on_cpu", offloaded)
raise SystemExit(offloaded and not plain)
