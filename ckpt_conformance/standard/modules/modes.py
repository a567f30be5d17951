"""modules: training, evaluation, no_grad, and the statistics that modules gather."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, module_region, sample, seeded_module
from ckpt_conformance.standard.compare import expect_like_plain, expect_program_like_plain
from ckpt_conformance.standard.evidence import expect_equal, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, RECOMPUTING, requirement


class Counting(nn.Module):
    """A small network that counts its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        """Count, then multiply and squash."""
        self.runs += 1
        result: Tensor = self.layer(x).tanh().exp()
        return result


def counting(lab: Lab) -> Counting:
    """A counting module on the lab's device."""
    module = seeded_module(Counting, lab.device)
    assert isinstance(module, Counting)
    return module


@requirement(
    "modules/active-in-eval-mode",
    MUST,
    since="2026.12",
    styles=RECOMPUTING,
    source="huggingface/diffusers#9878",
)
def active_in_eval_mode(candidate: Candidate, lab: Lab) -> None:
    """A module in eval mode is checkpointed as well where gradients are on.

    Fine-tuning with frozen dropout, adversarial training and guidance go back through modules in eval mode.
    Checkpointing that depends on `module.training` silently does nothing there, and memory runs out.

    How: ask whether gradients are enabled, never whether the module trains.
    """
    module = counting(lab).eval()
    region = Region(module, (lab.tensor(4, 8),), parameters=dict(module.named_parameters()))
    candidate.run(region).sum().backward()
    expect_equal("a module in eval mode was not recomputed (number of runs)", 2, module.runs)


@requirement(
    "modules/plain-under-no-grad",
    MUST,
    since="2026.12",
    source=("huggingface/diffusers#10107", "pytorch/pytorch#7617"),
)
def plain_under_no_grad(candidate: Candidate, lab: Lab) -> None:
    """Under no_grad and inference_mode a module runs once, and its output has no graph.

    Validation runs through the same code as training. A graph there keeps every batch's activations, and
    checkpointing machinery costs time for nothing.

    How: where gradients are off, call the function and return.
    """
    for off in (torch.no_grad, torch.inference_mode):
        module = counting(lab)
        with off():
            result = candidate.run(Region(module, (lab.tensor(4, 8),)))
        expect_equal(f"requires_grad of the output under {off.__name__}", False, result.requires_grad)
        expect_equal(f"number of runs under {off.__name__}", 1, module.runs)


def with_modes() -> nn.Module:
    """Layers that work differently in training and in evaluation."""
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8))


def in_eval_mode(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A network in eval mode, with its gradients and buffers."""
    module = seeded_module(with_modes, device).eval()
    x = sample(4, 8, device=device)
    result = candidate.run(Region(module, (x,), parameters=dict(module.named_parameters())))
    result.square().sum().backward()
    named = {f"gradient of {name}": parameter.grad for name, parameter in module.named_parameters()}
    return {"result": result.detach(), "gradient of x": x.grad} | named | buffers_of(module)


def buffers_of(module: nn.Module) -> dict[str, Tensor]:
    """Copies of a module's buffers, named for the evidence."""
    return {f"buffer {name}": buffer.clone() for name, buffer in module.named_buffers()}


@requirement("modules/eval-mode", MUST, since="2026.12", source="huggingface/diffusers#9878")
def eval_mode(candidate: Candidate, lab: Lab) -> None:
    """A region of modules in eval mode gives the plain run's values and gradients, and gathers no statistics.

    Dropout is off and batch norm uses what it has gathered, in both runs. A recompute that switches the
    module to training mode draws a mask and changes the statistics of a frozen model.

    How: run the module again in the mode it is in; never call `train()`.
    """
    expect_program_like_plain(candidate, lab, in_eval_mode)


def batch_norm() -> nn.Module:
    """A layer with batch statistics."""
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh())


def batch_norm_region(device: torch.device) -> Region:
    """A region with batch norm in training mode."""
    return module_region(seeded_module(batch_norm, device), sample(6, 8, device=device))


@requirement("modules/batch-norm-gradients", MUST, since="2026.12", source="pytorch/pytorch#62471")
def batch_norm_gradients(candidate: Candidate, lab: Lab) -> None:
    """A region with batch norm in training mode gives the plain run's values and gradients.

    In training mode batch norm uses the batch alone, so that a second run gives the same values, whatever
    becomes of the running statistics.

    How: run the module again as it is.
    """
    expect_like_plain(candidate, lab, batch_norm_region)


@requirement(
    "modules/batch-statistics-after-forward", MUST, since="2026.12", source="facebookresearch/fairscale#1035"
)
def batch_statistics_after_forward(candidate: Candidate, lab: Lab) -> None:
    """Right after the forward the running statistics are those of the plain run.

    Whoever evaluates or saves between forward and backward sees them. A patch that gathers in the second run
    instead of the first shows stale statistics, and none at all for a forward without a backward.

    How: let the first run gather; if only one may, switch off the second.
    """
    module = seeded_module(batch_norm, lab.device)
    plain = seeded_module(batch_norm, lab.device)
    candidate.run(Region(module, (lab.tensor(6, 8),), parameters=dict(module.named_parameters())))
    plain(lab.tensor(6, 8))
    expect_program_equal(buffers_of(plain), buffers_of(module))


def expect_program_equal(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> None:
    """Report the first tensor that differs."""
    for name, tensor in expected.items():
        if not torch.equal(tensor, found[name]):
            violated(f"{name} differs", expected=tensor.tolist(), found=found[name].tolist())


@requirement(
    "modules/batch-statistics-counted-once",
    MAY,
    since="2026.12",
    capability="batch-statistics",
    source=(
        "pytorch/pytorch#96136",
        "pytorch/pytorch#62471",
        "pfnet/pytorch-pfn-extras#117",
        "facebookresearch/fairscale#694",
    ),
)
def batch_statistics_counted_once(candidate: Candidate, lab: Lab) -> None:
    """Running statistics are gathered once a step although the module runs twice, if the candidate says so.

    Running a region again is what checkpointing documents, and batch norm gathers each time: the effective
    momentum changes. Whoever promises better must keep it; whoever does not must count exactly twice.

    How: wrap the module's forward, and put its buffers back after the second run.
    """
    module, plain = seeded_module(batch_norm, lab.device), seeded_module(batch_norm, lab.device)
    region = Region(module, (lab.tensor(6, 8),), parameters=dict(module.named_parameters()))
    candidate.run(region).sum().backward()
    plain(lab.tensor(6, 8))
    found, once = buffers_of(module), buffers_of(plain)
    plain(lab.tensor(6, 8))
    twice = buffers_of(plain)
    if "batch-statistics" in candidate.capabilities or not _all_equal(twice, found):
        expect_program_equal(once, found)
        return
    raise NotImplementedError(
        "the statistics were gathered in both runs, as running a region twice does; "
        "declare 'batch-statistics' to be held to more"
    )


def _all_equal(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(tensor, found[name]) for name, tensor in expected.items())
