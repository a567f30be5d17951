"""Torch's reentrant checkpoint, and a region that gives a tensor out of a container as it is: a backward without end.

The container's tensor is the caller's own leaf, no detached copy as an argument would be. Given back as it is, it
becomes the output of the checkpoint's node: the caller's leaf has a history from then on. The recompute gives the same
leaf, whose history is the node whose backward is running: that backward calls itself until no thread can be started,
or no memory is left. Memory is bounded here so that the end comes within seconds.
"""

import subprocess
import sys

PROGRAM = """
import resource, torch
from torch.utils.checkpoint import checkpoint

resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, 1 << 29))
x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
result = checkpoint(lambda pair, y: pair[0], (x, x), y, use_reentrant=True)
print("the result is the caller's x:", result is x)
print("x is a leaf:", x.is_leaf, "and comes from", type(x.grad_fn).__name__, flush=True)
result.sum().backward()
print("backward came to an end")
"""

ran = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False)
print(ran.stdout, end="")
print("the backward's nested calls:", ran.stderr.count("in backward\n"), "in the traceback")
print("the program ends with", ran.returncode, "-", ran.stderr.strip().splitlines()[-1:])

if "is a leaf: False" in ran.stdout and "came to an end" not in ran.stdout and ran.returncode != 0:
    print("reproduced")
    sys.exit(1)
