"""The function-style API: `checkpoint(function, *args, **kwargs)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from .engine import Frame

_known_to_compilers: Any = torch_checkpoint
P = ParamSpec("P")
T = TypeVar("T")


def checkpoint(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a region and drop what its graph saves for backward; the backward recomputes it.

    Args:
        function: The region. It must do the same when it runs again: generators, autocast, default dtype and
            device, grad mode and modes are replayed; what it changes outside of itself happens twice.
        *args: Its inputs, of any kind; tensors are found in nested containers too.
        **kwargs: The same. Every keyword goes to `function`.

    Returns:
        What `function` returned, on the graph it would have without checkpointing.

    Raises:
        CheckpointError: In backward, when an input, a captured tensor or a recomputed tensor was changed in
            place, or when the recompute saves other tensors than the forward did.
    """
    if torch.compiler.is_compiling():
        # a compiler decides itself what is recomputed, and knows regions by torch's own function
        compiled: T = _known_to_compilers(function, *args, use_reentrant=False, **kwargs)
        return compiled
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    result: T = Frame(function, args, kwargs).forward(args, kwargs)
    return result
