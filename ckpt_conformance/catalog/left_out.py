"""Published implementations that no matrix made on the CPU has: what they raised, or what they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A published implementation that has no row in the matrix.

    Attributes:
        package: The distribution, with the version where it was tried.
        entry: The public entry point.
        why: What it raised, or why it was not tried.
    """

    package: str
    entry: str
    why: str


_NO_CUDA: Final = "`AssertionError: Torch not compiled with CUDA enabled`"

LEFT_OUT: Final = (
    LeftOut("trl 1.16.0", "`models.activation_offloading.OffloadActivations`",
            "asks for an accelerator: `AttributeError: 'NoneType' object has no attribute 'type'`"),
    LeftOut("torchtune 0.6.1", "`training.OffloadActivations`",
            f"imports with torchao 0.9.0 alone, then {_NO_CUDA} at `torch.cuda.default_stream()`"),
    LeftOut("axolotl 0.19.0", "`CPU_Offloaded_Gradient_Checkpointer`, `Disco`",
            f"move tensors to \"cuda\" by name in the backward: {_NO_CUDA}"),
    LeftOut("colossalai 0.5.0", "`legacy.utils.activation_checkpoint.checkpoint`",
            f"reads the CUDA generator without asking whether there is one: {_NO_CUDA}"),
    LeftOut("stable-diffusion-sdkit 2.1.5", "`ldm.modules.diffusionmodules.util.checkpoint`",
            "the caller names the parameters that the region reaches, which the suite's regions do not all "
            "say; that its dropout is not replayed is openai/guided-diffusion#167"),
    LeftOut("returnn 1.20261022.211313", "`torch.util.gradient_checkpoint.gradient_checkpoint_scope`",
            "keeps its saved-tensor hooks entered after the scope and takes over how torch handles them; "
            "the suite ends such hooks after each requirement, so that later ones fail by our doing"),
    LeftOut("verl 0.9.1", "`utils.activation_offload.enable_activation_offloading`",
            "takes models that FSDP has wrapped, which needs a process group, and offloads from an "
            "accelerator; its import asks for ray"),
    LeftOut("internevo 0.5.2", "`solver.activation_checkpoint.activation_checkpoint`",
            "the wheel lacks a part: `ModuleNotFoundError: No module named 'internlm.core.parallel.comm'`"),
    LeftOut("fastckpt 0.0.4", "`replace_hf_ckpt_with_fast_ckpt`",
            "replaces the layers of one model and imports flash_attn, which needs CUDA"),
    LeftOut("mindspeed 0.0.1.dev1", "`CheckpointWithoutOutput`",
            "the package index has a placeholder, whose build refers to the project's homepage"),
    LeftOut("deepspeed 0.19.8", "`configure(checkpoint_in_cpu=True)`",
            "on a machine without an accelerator it frees the input that it runs on"),
    LeftOut("memcnn 1.5.2, revtorch 0.2.4, revlib 1.7.2", "reversible blocks",
            "not tried: they recompute inputs from outputs by an inverse, which few regions have"),
    LeftOut("lightning, accelerate, torchtitan, nemo-automodel", "their switches",
            "not tried: they pass options on to `torch.utils.checkpoint`, so torch's rows are theirs"),
)  # fmt: skip
"""Everything that was tried or looked at and has no row, widest use first."""
