"""nanotron's decorator for methods: https://github.com/huggingface/nanotron.

Tried with 0.4. It calls `torch.utils.checkpoint` with its options left alone, and refuses methods that take
`*args` or `**kwargs`; so there is one here for each number of inputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

from ckpt_conformance.candidate import Candidate


def nanotron() -> Candidate:
    """A method under `@checkpoint_method(attr_name=...)`."""
    # the module is part of a circle of imports that can be entered here alone
    importlib.import_module("nanotron.distributed")
    importlib.import_module("nanotron.utils")
    return Candidate.from_function(in_a_method, name="nanotron", distribution="nanotron")


def in_a_method(fn: Callable[..., Any], *inputs: Any) -> Any:
    """Run a region as the checkpointed method of a layer; by position: the layer has names of its own."""
    layer = layer_class()(fn)
    return layer.methods[len(inputs)](layer, *inputs)


@cache
def layer_class() -> Any:
    """The class that a user would have written: made once, since a class outlives what it was made for."""
    from nanotron.utils import checkpoint_method

    method = checkpoint_method(attr_name="recompute")

    class Layer:
        recompute = True

        def __init__(self, fn: Callable[..., Any]) -> None:
            self.fn = fn

        methods = (
            method(lambda self: self.fn()),
            method(lambda self, a: self.fn(a)),
            method(lambda self, a, b: self.fn(a, b)),
            method(lambda self, a, b, c: self.fn(a, b, c)),
            method(lambda self, a, b, c, d: self.fn(a, b, c, d)),
            method(lambda self, a, b, c, d, e: self.fn(a, b, c, d, e)),
            method(lambda self, a, b, c, d, e, f: self.fn(a, b, c, d, e, f)),
        )

    return Layer
