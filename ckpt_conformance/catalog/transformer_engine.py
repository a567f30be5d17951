"""TransformerEngine's `te.checkpoint`: https://docs.nvidia.com/deeplearning/transformer-engine (pytorch API).

Tried with 2.20.2 on a GPU, which it needs; for functions it takes for granted that TransformerEngine's
modules are inside.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from ckpt_conformance.candidate import Candidate, CandidateError

_MODULE = "transformer_engine.pytorch"


def reentrant() -> Candidate:
    """`te.checkpoint(..., use_reentrant=True)`, which is what it does by itself."""
    return Candidate.from_function(
        partial(_te().checkpoint, use_reentrant=True),
        name="transformer-engine-reentrant",
        distribution="transformer-engine",
        capabilities={"rng"},
    )


def nonreentrant() -> Candidate:
    """`te.checkpoint(..., use_reentrant=False)`."""
    return Candidate.from_function(
        partial(_te().checkpoint, use_reentrant=False),
        name="transformer-engine-nonreentrant",
        distribution="transformer-engine",
        capabilities={"rng"},
    )


def _te() -> Any:
    """The package.

    Raises:
        CandidateError: Its native libraries do not load, as where there is no GPU.
    """
    try:
        return importlib.import_module(_MODULE)
    except (ImportError, OSError, RuntimeError) as error:
        said = " ".join(str(error).split())[:160]
        raise CandidateError(f"{_MODULE} cannot be imported ({type(error).__name__}: {said})") from error
