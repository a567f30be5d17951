"""Packages with one checkpoint function each, which need no file of their own; each names its documentation.

Tried with torchgpipe 0.0.7, invtorch 0.5.0, torch_remat 0.2.2, spikingjelly 2.0.0, xformers 0.0.35 and
liger-kernel 0.8.5, which needs triton to be imported.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from torch import nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.forwards import call, running
from ckpt_conformance.catalog.torch_checkpoint import CAPABILITIES


def torchgpipe() -> Candidate:
    """`torchgpipe.checkpoint.checkpoint(function, input)`: https://torchgpipe.readthedocs.io.

    It takes one tensor, or a tuple of tensors.
    """
    from torchgpipe.checkpoint import checkpoint

    return Candidate.from_function(
        checkpoint, name="torchgpipe", distribution="torchgpipe", capabilities={"rng"}
    )


def invtorch() -> Candidate:
    """`invtorch.utils.checkpoint.checkpoint(function, *args)`: https://github.com/xmodar/invtorch."""
    from invtorch.utils.checkpoint import checkpoint

    return Candidate.from_function(checkpoint, name="invtorch", distribution="invtorch", capabilities={"rng"})


def torch_remat() -> Candidate:
    """`torch_remat.checkpoint()(function)(*args)`: https://pypi.org/project/torch-remat.

    Its docs rule out nested regions, random state (hooks of the user's do that), and outputs other than a
    tensor or a flat tuple or list of tensors.
    """
    import torch_remat as package

    assert package.checkpoint
    return Candidate.from_function(
        rematerialized,
        name="torch-remat",
        distribution="torch_remat",
        capabilities={"kwargs", "containers", "autograd-grad"},
    )


def rematerialized(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Call torch_remat's decorator with its options left alone."""
    from torch_remat import checkpoint

    return checkpoint()(fn)(*args, **kwargs)


def spikingjelly() -> Candidate:
    """`memopt.checkpointing.checkpoint(function, *args, **kwargs)`: https://spikingjelly.readthedocs.io.

    Non-reentrant, pytrees in and out.
    """
    from spikingjelly.activation_based.memopt.checkpointing import checkpoint

    return Candidate.from_function(
        checkpoint, name="spikingjelly", distribution="spikingjelly", capabilities=CAPABILITIES
    )


def spikingjelly_module() -> Candidate:
    """`memopt.checkpointing.checkpoint_module(module)`."""
    from spikingjelly.activation_based.memopt.checkpointing import checkpoint_module

    return Candidate.from_wrapper(
        checkpoint_module, name="spikingjelly-module", distribution="spikingjelly", capabilities=CAPABILITIES
    )


def xformers() -> Candidate:
    """`xformers.checkpoint(function, *args)`: https://facebookresearch.github.io/xformers.

    The policy is left at its default: nothing is kept.
    """
    from xformers import checkpoint

    return Candidate.from_function(
        checkpoint, name="xformers", distribution="xformers", capabilities={"kwargs", "rng"}
    )


def liger_tiled() -> Candidate:
    """`apply_tiled_mlp` with one tile: https://github.com/linkedin/Liger-Kernel.

    It is made for an MLP, which has one input.
    """
    importlib.import_module("liger_kernel.ops.tiled_mlp")
    return Candidate.from_wrapper(
        partial(running, _run_tiled), name="liger-tiled-mlp", distribution="liger-kernel", remark="one tile"
    )


def _run_tiled(module: nn.Module, x: Any) -> Any:
    from liger_kernel.ops.tiled_mlp import apply_tiled_mlp

    return apply_tiled_mlp(call, module, x, num_shards=1)
