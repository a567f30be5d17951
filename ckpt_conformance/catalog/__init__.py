"""Ready-made candidates for published implementations, one file each, imported lazily.

Adding one is a line of `CATALOG`, and a module here that makes the candidate.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate that can be had by name.

    Attributes:
        name: What the user types.
        module: The module here that makes it.
        attribute: The `Candidate`, or a function of no arguments that gives it.
        distribution: The distribution that must be installed; empty where torch is all it needs.
        install: What pip is asked for to get it.
    """

    name: str
    module: str
    attribute: str
    distribution: str = ""
    install: str = ""

    @property
    def missing(self) -> str:
        """What to type to get what the candidate needs; empty where it is there."""
        if not self.distribution or _installed(self.distribution):
            return ""
        return f"python -m pip install {self.install or self.distribution}"

    def load(self) -> Any:
        """The attribute: a `Candidate`, or a function of no arguments that gives one."""
        return getattr(importlib.import_module(f"{__name__}.{self.module}"), self.attribute)


def _installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


_TE: Final = "'transformer-engine[pytorch]'"

CATALOG: Final = (
    Entry("reference", "reference", "reference"),
    Entry("reference-discard", "reference", "reference_discard"),
    Entry("reference-reentrant", "reference", "reference_reentrant"),
    Entry("torch-reentrant", "torch_checkpoint", "REENTRANT"),
    Entry("torch-nonreentrant", "torch_checkpoint", "NONREENTRANT"),
    Entry("torch-nonreentrant-no-early-stop", "torch_checkpoint", "WITHOUT_EARLY_STOP"),
    Entry("torch-selective", "torch_checkpoint", "SELECTIVE"),
    Entry("torch-sequential", "torch_checkpoint", "SEQUENTIAL"),
    Entry("torch-save-on-cpu", "torch_checkpoint", "SAVE_ON_CPU"),
    Entry("torch-wrapper-reentrant", "torch_distributed", "WRAPPER_REENTRANT"),
    Entry("torch-wrapper-nonreentrant", "torch_distributed", "WRAPPER_NONREENTRANT"),
    Entry("torch-apply-checkpointing", "torch_distributed", "APPLIED"),
    Entry("torch-composable", "torch_distributed", "COMPOSABLE"),
    Entry("torch-offload-wrapper", "torch_distributed", "OFFLOAD_WRAPPER"),
    Entry("megatron", "megatron", "megatron", "megatron-core"),
    Entry("megatron-discard", "megatron", "megatron_discard", "megatron-core"),
    Entry("transformer-engine-reentrant", "transformer_engine", "reentrant", "transformer-engine", _TE),
    Entry("transformer-engine-nonreentrant", "transformer_engine", "nonreentrant", "transformer-engine", _TE),
    Entry("megatron-0.16", "megatron", "megatron", "megatron-core", "megatron-core==0.16.1"),
    Entry("megatron-0.16-discard", "megatron", "megatron_discard", "megatron-core", "megatron-core==0.16.1"),
    Entry("deepspeed", "deepspeed", "deepspeed", "deepspeed"),
    Entry("deepspeed-nonreentrant", "deepspeed", "deepspeed_nonreentrant", "deepspeed"),
    Entry("deepspeed-tiled-mlp", "deepspeed", "deepspeed_tiled", "deepspeed"),
    Entry("fairscale", "fairscale", "fairscale", "fairscale"),
    Entry("fairscale-offload", "fairscale", "fairscale_offload", "fairscale"),
    Entry("transformers-reentrant", "transformers", "transformers_reentrant", "transformers"),
    Entry("transformers-nonreentrant", "transformers", "transformers_nonreentrant", "transformers"),
    Entry("unsloth", "unsloth", "unsloth", "unsloth_zoo"),
    Entry("unsloth-offload", "unsloth", "unsloth_offload", "unsloth_zoo"),
    Entry("unsloth-smart", "unsloth", "unsloth_smart", "unsloth_zoo"),
    Entry("torchgpipe", "small", "torchgpipe", "torchgpipe"),
    Entry("invtorch", "small", "invtorch", "invtorch"),
    Entry("torch-remat", "small", "torch_remat", "torch_remat"),
    Entry("spikingjelly", "small", "spikingjelly", "spikingjelly"),
    Entry("spikingjelly-module", "small", "spikingjelly_module", "spikingjelly"),
    Entry("liger-tiled-mlp", "small", "liger_tiled", "liger-kernel"),
    Entry("xformers", "small", "xformers", "xformers"),
    Entry("pfn-extras", "pfn_extras", "pfn_extras", "pytorch-pfn-extras"),
    Entry("nanotron", "nanotron", "nanotron", "nanotron"),
    Entry("timm", "timm", "timm", "timm"),
    Entry("veomni", "veomni", "veomni", "veomni"),
    Entry("arctic", "arctic", "arctic", "arctic-training"),
    Entry("axolotl-tiled-mlp", "axolotl", "axolotl_tiled", "axolotl"),
)
"""Every candidate that has a name, in the order in which they are listed."""


def entries() -> Iterator[Entry]:
    """Every entry, whether what it needs is installed or not."""
    yield from CATALOG


def find(name: str) -> Entry | None:
    """The entry of that name."""
    return next((entry for entry in CATALOG if entry.name == name), None)
