"""megatron-core: reading an output that was discarded ends the process (SIGSEGV), where an error would do.

Needs torch and megatron-core. Exit code 1 where the fault shows; the reading happens in a child.
"""

import multiprocessing

import torch
from _megatron import load

random = load()


def read():
    use = random.CheckpointWithoutOutput(fp8=None)
    x = torch.randn(4, 8, requires_grad=True)
    y = use.checkpoint(torch.exp, x)
    z = y.sin()
    use.discard_output_and_register_recompute(z)
    y.sum().item()


child = multiprocessing.get_context("fork").Process(target=read)
child.start()
child.join()
print("exit code of the child:", child.exitcode)
raise SystemExit(child.exitcode is not None and child.exitcode < 0)
