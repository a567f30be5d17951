"""transformers' checkpointed layer: https://huggingface.co/docs/transformers/en/main_classes/model.

Tried with 5.24. `model.gradient_checkpointing_enable(...)` sets on each `GradientCheckpointingLayer` the two
attributes that are set here. The layer runs `torch.utils.checkpoint` and promises what that does; it names
keyword arguments, which it binds beforehand, and warns that those of the reentrant version carry no gradient.
"""

from __future__ import annotations

import copy
import importlib
from functools import cache, partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.torch_checkpoint import CAPABILITIES


def transformers_reentrant() -> Candidate:
    """A `GradientCheckpointingLayer` with `use_reentrant=True`."""
    _import()
    return Candidate.from_wrapper(
        partial(in_a_layer, use_reentrant=True), name="transformers-reentrant", distribution="transformers"
    )


def transformers_nonreentrant() -> Candidate:
    """A `GradientCheckpointingLayer` with `use_reentrant=False`, the default since 5.0."""
    _import()
    return Candidate.from_wrapper(
        partial(in_a_layer, use_reentrant=False),
        name="transformers-nonreentrant",
        distribution="transformers",
        capabilities=CAPABILITIES,
    )


def _import() -> None:
    """Import the package early: that adds a warning filter, which would pass for the first region's doing."""
    importlib.import_module("transformers.modeling_layers")


def in_a_layer(module: nn.Module, *, use_reentrant: bool) -> nn.Module:
    """The module as a layer of a model whose gradient checkpointing was enabled."""
    layer: Any = copy.copy(module)
    kind: Any = type(module)
    layer.__class__ = layer_class(kind)
    layer.gradient_checkpointing = True
    layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=use_reentrant)
    return layer  # type: ignore[no-any-return]


@cache
def layer_class(kind: Any) -> Any:
    """The class that a user would have written: made once, since a class outlives what it was made for."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return type(kind.__name__, (GradientCheckpointingLayer, kind), {"forward": kind.forward})
