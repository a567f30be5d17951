"""The checkpoint that image models copied from guided-diffusion, as Stable Diffusion's package has it.

Tried with stable-diffusion-sdkit 2.1.5, whose `ldm` is https://github.com/Stability-AI/stablediffusion. Its
docstring promises nothing beyond the gradients; the caller names the parameters.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from torch import nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.forwards import running

_MODULE = "ldm.modules.diffusionmodules.util"


def stable_diffusion() -> Candidate:
    """`checkpoint(module, inputs, module.parameters(), True)`, as a transformer block calls it."""
    importlib.import_module(_MODULE)
    return Candidate.from_wrapper(
        partial(running, _run), name="stable-diffusion", distribution="stable-diffusion-sdkit"
    )


def _run(module: nn.Module, *inputs: Any) -> Any:
    checkpoint = importlib.import_module(_MODULE).checkpoint
    return checkpoint(module, inputs, module.parameters(), True)
