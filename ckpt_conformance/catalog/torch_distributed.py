"""The module wrappers of torch.distributed, and the composable checkpoint.

Tried with torch 2.13.0. They have no page of documentation: what their docstrings say is that they wrap
`torch.utils.checkpoint`, so each promises what that does.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn
from torch.distributed._composable.checkpoint_activation import checkpoint
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.torch_checkpoint import CAPABILITIES

# the reentrant wrapper packs keyword arguments into positional ones, by its docstring
WRAPPER_REENTRANT = Candidate.from_wrapper(
    partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.REENTRANT),
    name="torch-wrapper-reentrant",
    distribution="torch",
    capabilities={"kwargs"},
)

WRAPPER_NONREENTRANT = Candidate.from_wrapper(
    partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT),
    name="torch-wrapper-nonreentrant",
    distribution="torch",
    capabilities=CAPABILITIES,
)


class Root(nn.Module):
    """The model around a module: `apply_activation_checkpointing` leaves the root alone."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the inner module."""
        return self.inner(*args, **kwargs)


def applied(module: nn.Module) -> nn.Module:
    """Let `apply_activation_checkpointing` wrap a module inside a model; gives the wrapped module."""
    root = Root(module)
    apply_activation_checkpointing(root, check_fn=lambda part: part is module)
    return root.inner


APPLIED = Candidate.from_wrapper(
    applied, name="torch-apply-checkpointing", distribution="torch", capabilities=CAPABILITIES
)

COMPOSABLE = Candidate.from_wrapper(
    checkpoint, name="torch-composable", distribution="torch", capabilities=CAPABILITIES
)

OFFLOAD_WRAPPER = Candidate.from_wrapper(
    offload_wrapper,
    name="torch-offload-wrapper",
    distribution="torch",
    remark="offloads what is saved; recomputes nothing",
)
