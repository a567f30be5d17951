"""Reentrant: a tensor that the region returns in a dict has no graph; a named tuple comes back as a tuple.

Needs torch alone. Exit code 1 where the fault shows.
"""

from typing import NamedTuple

import torch
from torch.utils.checkpoint import checkpoint


class Pair(NamedTuple):
    hidden: torch.Tensor
    gate: torch.Tensor


x = torch.ones(4, requires_grad=True)
in_a_dict = checkpoint(lambda x: {"hidden": x.exp()}, x, use_reentrant=True)
pair = checkpoint(lambda x: Pair(x.exp(), x.sin()), x, use_reentrant=True)
print("in a dict, needs a gradient:", in_a_dict["hidden"].requires_grad, "named tuple:", type(pair).__name__)
raise SystemExit(not in_a_dict["hidden"].requires_grad or not isinstance(pair, Pair))
