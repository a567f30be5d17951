"""TransformerEngine's own layers, downstream of a region and inside of one."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, sample, seeded_module
from ckpt_conformance.standard.compare import backward_from, expect_program_like_plain, gradients_of
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import CUDA, MUST, requirement

_GROUPED = "https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/pytorch.html"
_EXPERTS, _TOKENS, _IN, _OUT = 4, 64, 256, 512


def transformer_engine(_lab: Lab) -> str | None:
    """Why TransformerEngine cannot be had here; None where it can."""
    if importlib.util.find_spec("transformer_engine") is None:
        return "needs transformer-engine[pytorch], which is not installed; the imitations in `views` ran"
    try:
        with warnings.catch_warnings():
            # it warns about other frameworks than torch that it finds
            warnings.simplefilter("ignore")
            importlib.import_module("transformer_engine.pytorch")
    except Exception as error:  # noqa: BLE001 - it loads native libraries, which fail in many ways
        said = f"{type(error).__name__}: {str(error)[:120]}"
        return f"needs transformer_engine.pytorch, whose import raised {said}"
    return None


def fp8(lab: Lab) -> str | None:
    """Why TransformerEngine cannot compute in FP8 here; None where it can."""
    missing = transformer_engine(lab)
    if missing is not None:
        return missing
    recipes: Any = importlib.import_module("transformer_engine.common.recipe")
    if not hasattr(recipes, "Float8CurrentScaling"):
        return "needs a TransformerEngine with Float8CurrentScaling (2.2 and newer)"
    found = torch.cuda.get_device_capability(lab.device)
    return None if found >= (8, 9) else f"needs a GPU with FP8; this one has compute capability {found}"


@requirement(
    "cuda/transformer-engine-grouped-linear", MUST, since="2026.12", devices=CUDA, needs=transformer_engine,
    source=("NVIDIA/Megatron-LM#3649", _GROUPED),
)  # fmt: skip
def transformer_engine_grouped_linear(candidate: Candidate, lab: Lab) -> None:
    """A real GroupedLinear behind the region gets the right gradient for every expert's weight.

    It saves one view of its input for each expert, all on the input's storage, and never the input itself. An
    output that comes back on its tensor (`Tensor.set_`) leaves these views on freed memory: every weight's
    gradient is wrong, and the input's is right.

    How: put the recomputed memory under the output's own storage.
    """
    expect_program_like_plain(candidate, lab, _grouped_linear_behind)


@requirement(
    "cuda/transformer-engine-layernorm-mlp", MUST, since="2026.12", devices=CUDA, needs=transformer_engine,
    source=_GROUPED,
)  # fmt: skip
def transformer_engine_layernorm_mlp(candidate: Candidate, lab: Lab) -> None:
    """A LayerNormMLP of TransformerEngine inside a region gets the plain run's gradients.

    Its fused kernels save tensors of their own making, prepared for one backward and emptied by it.

    How: hand each recomputed tensor over once, and let the module do with it what it likes.
    """
    expect_program_like_plain(candidate, lab, _layernorm_mlp)


@requirement("cuda/transformer-engine-fp8", MUST, since="2026.12", devices=CUDA, needs=fp8, source=_GROUPED)
def transformer_engine_fp8(candidate: Candidate, lab: Lab) -> None:
    """A region that computes in FP8 with current scaling gets the plain run's gradients.

    The region opens FP8 itself, so that its recompute does too. Its saved tensors are quantized ones, whose
    memory is not that of the tensor that Python shows.

    How: treat what the region saves as opaque; keep nothing but the inputs.
    """
    expect_program_like_plain(candidate, lab, _fp8_layernorm_mlp)


def _grouped_linear_behind(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    te: Any = importlib.import_module("transformer_engine.pytorch")
    grouped = seeded_module(
        lambda: te.GroupedLinear(_EXPERTS, _IN, _OUT, params_dtype=torch.bfloat16), device, seed=1
    )
    x = sample(_TOKENS, _IN, device=device, dtype=torch.bfloat16)
    splits = [_TOKENS // _EXPERTS] * _EXPERTS
    backward_from(candidate.run(Region(torch.tanh, (x,)), lambda output: grouped(output, splits)))
    return gradients_of(x=x, **_named(grouped))


def _layernorm_mlp(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    module = _made_layernorm_mlp(device)
    x = sample(_TOKENS, _IN, device=device, dtype=torch.bfloat16)
    parameters = dict(module.named_parameters())
    backward_from(candidate.run(Region(lambda value: module(value), (x,), {}, parameters)))
    return gradients_of(x=x, **_named(module))


def _fp8_layernorm_mlp(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    te: Any = importlib.import_module("transformer_engine.pytorch")
    recipes: Any = importlib.import_module("transformer_engine.common.recipe")
    module = _made_layernorm_mlp(device)
    x = sample(_TOKENS, _IN, device=device, dtype=torch.bfloat16)

    def fn(value: Tensor) -> Tensor:
        with te.fp8_autocast(enabled=True, fp8_recipe=recipes.Float8CurrentScaling()):
            output: Tensor = module(value)
        return output

    backward_from(candidate.run(Region(fn, (x,), {}, dict(module.named_parameters()))))
    return gradients_of(x=x, **_named(module))


def _made_layernorm_mlp(device: torch.device) -> nn.Module:
    te: Any = importlib.import_module("transformer_engine.pytorch")
    return seeded_module(lambda: te.LayerNormMLP(_IN, _OUT, params_dtype=torch.bfloat16), device)


def _named(module: nn.Module) -> dict[str, Tensor]:
    return {name.replace(".", "_"): parameter for name, parameter in module.named_parameters()}
