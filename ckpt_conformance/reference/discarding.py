"""The discarding API: the output goes once its consumer has run, and comes back on the same storage."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from .engine import Frame
from .engine.tasks import in_backward
from .errors import CheckpointError
from .restoring import Restorer
from .share import backend

P = ParamSpec("P")
T = TypeVar("T")


class _State(Enum):
    NEW = auto()
    WITHOUT_GRAD = auto()
    READY = auto()
    DISCARDED = auto()


class CheckpointWithoutOutput:
    """For one use: run a region, let the consumer run, then free the region's output until backward.

    ```python
    use = CheckpointWithoutOutput()
    hidden = use.checkpoint(norm, x)
    result = linear(hidden)                              # saves hidden, or views of it
    use.discard_output_and_register_recompute(result)    # hidden's memory is free until result's gradient
    comes ```

    Raises:
        CheckpointError: On making one, where storages cannot be shared; the message names what to install.
    """

    def __init__(self) -> None:
        if torch.compiler.is_compiling():
            # a traced graph has no storages to free; without fullgraph the compiler then leaves this out
            raise CheckpointError(
                "a CheckpointWithoutOutput cannot be traced by torch.compile; keep it outside"
            )
        # compiled here if need be: in a backward it would take seconds at the worst moment
        backend()
        self._state = _State.NEW
        self._restorer: Restorer | None = None

    def checkpoint(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the region as `checkpoint.checkpoint` does; its output is whole until it is discarded.

        Raises:
            CheckpointError: The object was used before.
        """
        if self._state is not _State.NEW:
            raise CheckpointError("a CheckpointWithoutOutput is for one use; make a new one for each region")
        if not torch.is_grad_enabled():
            self._state = _State.WITHOUT_GRAD
            return function(*args, **kwargs)
        frame = Frame(function, args, kwargs)
        output: T = frame.forward(args, kwargs)
        self._restorer = Restorer(frame, tree_leaves(output), tree_leaves((args, kwargs)))
        self._state = _State.READY
        return output

    def discard_output_and_register_recompute(self, hook_tensor: Tensor) -> None:
        """Free the output's memory; the gradient of `hook_tensor` brings it back.

        An output on the memory of something that outlives the region (an input, a parameter, a captured
        tensor) is kept. Without gradients, and in a recompute of an enclosing region, there is nothing to do
        and nothing is done.

        Args:
            hook_tensor: A tensor computed from the output by its consumers, whose gradient backward computes
                before any of them needs the output. Not the output itself.

        Raises:
            CheckpointError: Nothing was checkpointed or it was discarded before; the hook tensor needs no
                grad or lies on the output's own memory; an output was changed in place. Nothing is freed
                then.
        """
        if self._state is _State.NEW:
            raise CheckpointError("there is no output to discard: call checkpoint() first")
        if self._state is _State.DISCARDED:
            raise CheckpointError(
                "the output was discarded before; use one CheckpointWithoutOutput per region"
            )
        if self._restorer is not None:
            # in the recompute of an enclosing region the graph that would restore the output is never run
            if not in_backward():
                self._restorer.discard(hook_tensor)
            self._restorer = None
            self._state = _State.DISCARDED
