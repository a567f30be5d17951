"""What the tiled MLPs of several projects share: how a user puts one into a model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn


def tiled(run: Callable[[nn.Module, Any], Any], module: nn.Module) -> nn.Module:
    """The module with its forward replaced by `run(module, x)`, as users do with a model's MLP."""
    layer = copy.copy(module)
    layer.forward = partial(run, module)
    return layer


def call(module: nn.Module, x: Any) -> Any:
    """What a tiled MLP is given to call: the module with one input."""
    return module(x)
