"""torch.utils.checkpoint: https://docs.pytorch.org/docs/stable/checkpoint.html.

Tried with torch 2.13.0. The capabilities are what those docs promise: the reentrant version takes positional
tensors alone and works with `.backward()` without `inputs`; the other one replays the random state, takes
keyword arguments and nested containers, and works with all of autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

from ckpt_conformance.candidate import Candidate

CAPABILITIES = frozenset(
    {
        "kwargs", "containers", "output-containers", "non-tensors", "autograd-grad", "inputs", "retain-graph",
        "double-backward", "rng",
    }
)  # fmt: skip
"""What the docs promise of `use_reentrant=False`."""

REENTRANT = Candidate.from_function(
    partial(checkpoint, use_reentrant=True), name="torch-reentrant", distribution="torch"
)

NONREENTRANT = Candidate.from_function(
    partial(checkpoint, use_reentrant=False),
    name="torch-nonreentrant",
    distribution="torch",
    capabilities=CAPABILITIES,
)

WITHOUT_EARLY_STOP = Candidate.from_function(
    partial(checkpoint, use_reentrant=False, early_stop=False),
    name="torch-nonreentrant-no-early-stop",
    distribution="torch",
    capabilities=CAPABILITIES,
)


def keep_products(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Checkpoint a region, and keep what its matrix products give."""
    products = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    contexts = partial(create_selective_checkpoint_contexts, products)
    return checkpoint(fn, *args, use_reentrant=False, context_fn=contexts, **kwargs)


# a second backward with retain_graph is not among what selective checkpointing gives: it says so itself
SELECTIVE = Candidate.from_function(
    keep_products,
    name="torch-selective",
    distribution="torch",
    capabilities=CAPABILITIES - {"retain-graph"},
    remark="saves the results of mm and addmm",
)


def sequential(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run a region as the first of two segments: the last one is never checkpointed.

    The function takes one input; what more a region has is refused by Python.
    """
    return checkpoint_sequential([fn, _same], 2, *args, use_reentrant=False, **kwargs)  # type: ignore[misc]


def _same(value: Any) -> Any:
    return value


SEQUENTIAL = Candidate.from_function(
    sequential, name="torch-sequential", distribution="torch", capabilities=CAPABILITIES - {"kwargs"}
)

SAVE_ON_CPU = Candidate.from_context(
    torch.autograd.graph.save_on_cpu,
    name="torch-save-on-cpu",
    distribution="torch",
    remark="offloads what is saved; recomputes nothing",
)
