"""fairscale's module wrapper: https://fairscale.readthedocs.io/en/stable/api/nn/checkpoint/checkpoint_activations.html.

Tried with 0.4.13, the last release. Its docs promise keyword arguments and outputs that are no tensors.
"""

from __future__ import annotations

from functools import partial

from ckpt_conformance.candidate import Candidate


def fairscale() -> Candidate:
    """`checkpoint_wrapper(module)`."""
    from fairscale.nn import checkpoint_wrapper

    return Candidate.from_wrapper(
        checkpoint_wrapper,
        name="fairscale",
        distribution="fairscale",
        capabilities={"kwargs", "non-tensors", "rng"},
    )


def fairscale_offload() -> Candidate:
    """`checkpoint_wrapper(module, offload_to_cpu=True)`."""
    from fairscale.nn import checkpoint_wrapper

    return Candidate.from_wrapper(
        partial(checkpoint_wrapper, offload_to_cpu=True),
        name="fairscale-offload",
        distribution="fairscale",
        capabilities={"kwargs", "non-tensors", "rng"},
    )
