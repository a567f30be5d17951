"""axolotl's tiled MLP: https://docs.axolotl.ai.

Tried with 0.19.0. Its checkpointers that offload to the CPU or to disk move tensors to "cuda" by name.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.forwards import call, running


def axolotl_tiled() -> Candidate:
    """`TiledMLP.apply(fn, module, x, shards, parameters)` with one tile: for an MLP, which has one input."""
    from axolotl.monkeypatch.tiled_mlp import base

    assert base.TiledMLP
    return Candidate.from_wrapper(
        partial(running, _run_tiled), name="axolotl-tiled-mlp", distribution="axolotl", remark="one tile"
    )


def _run_tiled(module: nn.Module, x: Any) -> Any:
    from axolotl.monkeypatch.tiled_mlp.base import TiledMLP

    return TiledMLP.apply(call, module, x, 1, list(module.parameters()))
