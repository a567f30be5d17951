"""modules: what wrapping a module changes about it (wrapper style)."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from torch import nn

from ckpt_conformance.candidate import Candidate, Style
from ckpt_conformance.regions import seeded_module
from ckpt_conformance.standard.evidence import expect_equal, expect_same_tensor, violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MUST, SHOULD, requirement

WRAPPER = frozenset({Style.WRAPPER})


def model() -> nn.Module:
    """Two layers, the second in a container of its own."""
    return nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.Tanh()))


def wrap_inside_out(wrap: Any, module: nn.Module) -> Any:
    """Wrap a child, then the whole."""
    assert isinstance(module, nn.Sequential)
    module[1] = wrap(module[1])
    return wrap(module)


@requirement(
    "modules/state-dict-names",
    MUST,
    since="2026.12",
    styles=WRAPPER,
    source=("pytorch/pytorch#117399", "pytorch/pytorch#77224", "pytorch/torchtitan#2622"),
)
def state_dict_names(candidate: Candidate, lab: Lab) -> None:
    """Wrapping changes no name in the state dict, also when a wrapped module is wrapped again.

    Weights are saved with checkpointing and loaded without. A prefix in the names makes a trained model
    unloadable, or, not strictly loaded, silently untrained.

    How: strip the prefix in a state-dict hook and add it when loading; or keep the module's own class.
    """
    plain = seeded_module(model, lab.device)
    wrapped = wrap_inside_out(candidate.target, seeded_module(model, lab.device, seed=1))
    expect_equal("names in the state dict", list(plain.state_dict()), list(wrapped.state_dict()))
    wrapped.load_state_dict(plain.state_dict())
    for name, tensor in wrapped.state_dict().items():
        expect_same_tensor(f"{name} after loading", plain.state_dict()[name], tensor)
    plain.load_state_dict(wrapped.state_dict())


@requirement(
    "modules/wrapped-module-dies",
    SHOULD,
    since="2026.12",
    styles=WRAPPER,
    source="facebookresearch/fairscale#424",
)
def wrapped_module_dies(candidate: Candidate, lab: Lab) -> None:
    """A wrapped module is freed with its last reference, without a garbage collection.

    Replacing `module.forward` by a partial of the bound method makes the module hold itself; its weights stay
    until the collector happens to run, with the next model already on the device.

    How: hold the module from the wrapper, and never the wrapper from the module.
    """
    wrapped = candidate.target(seeded_module(lambda: nn.Linear(8, 8), lab.device))
    wrapped(lab.tensor(4, 8)).sum().backward()
    alive = weakref.ref(next(iter(wrapped.parameters())))
    enabled = gc.isenabled()
    gc.disable()
    try:
        del wrapped
        if alive() is not None:
            violated("a wrapped module lives on", expected="freed", found="its weight is still there")
    finally:
        if enabled:
            gc.enable()
