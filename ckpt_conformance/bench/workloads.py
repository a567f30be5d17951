"""What the benchmark runs: a stack of layers, each a region and a consumer that saves the region's output."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, seeded_module


class WorkloadError(Exception):
    """A workload that cannot be had; the message is one line that says what to do."""


class Layer(Protocol):
    """One layer: `region(x)` is checkpointed, `consumer(x, h)` runs downstream of it."""

    def region(self, x: Tensor) -> Tensor:
        """What is recomputed: takes the layer's input (batch, sequence, hidden), gives the consumer's."""

    def consumer(self, x: Tensor, h: Tensor) -> Tensor:
        """What runs downstream: takes the layer's input and the region's output, gives the layer's output."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a workload is: `layers` x (`batch`, `sequence`, `hidden`) of `dtype`."""

    layers: int = 4
    hidden: int = 128
    sequence: int = 128
    batch: int = 1
    dtype: torch.dtype = torch.float32

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        shape = f"batch {self.batch}, sequence {self.sequence}, hidden {self.hidden}"
        return f"{self.layers} layers, {shape}, {kind}"


@dataclass(frozen=True, slots=True)
class Workload:
    """A stack of layers and its input (batch, sequence, hidden)."""

    name: str
    layers: tuple[Layer, ...]
    x: Tensor

    def forward(self, candidate: Candidate, count: Callable[[], None] = lambda: None) -> Tensor:
        """The stack under a candidate; `count` is called at each run of a region. Gives a scalar."""
        x = self.x
        for layer in self.layers:
            x = candidate.run(_region(layer, x, count), _consumer(layer, x))
        return x.float().square().mean()

    def zero_grad(self) -> None:
        """Free every gradient."""
        self.x.grad = None
        for layer in self.layers:
            if isinstance(layer, nn.Module):
                layer.zero_grad(set_to_none=True)


def _region(layer: Layer, x: Tensor, count: Callable[[], None]) -> Region:
    def run(inputs: Tensor) -> Tensor:
        count()
        return layer.region(inputs)

    parameters = dict(layer.named_parameters()) if isinstance(layer, nn.Module) else {}
    return Region(run, (x,), {}, parameters)


def _consumer(layer: Layer, x: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda h: layer.consumer(x, h)


class MlpLayer(nn.Module):
    """Norm, up-projection and GELU are the region; the down-projection saves its output, 4 times as wide."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def region(self, x: Tensor) -> Tensor:
        """(batch, sequence, hidden) to (batch, sequence, 4 hidden)."""
        return functional.gelu(self.up(self.norm(x)))

    def consumer(self, x: Tensor, h: Tensor) -> Tensor:
        """(batch, sequence, 4 hidden) to (batch, sequence, hidden), with the residual."""
        down: Tensor = self.down(h)
        return x + down


class BlockLayer(MlpLayer):
    """A transformer block: causal attention comes before the MLP, in the region too."""

    def __init__(self, hidden: int) -> None:
        super().__init__(hidden)
        self.heads = max(1, hidden // 128)
        self.before, self.qkv, self.out = (
            nn.LayerNorm(hidden),
            nn.Linear(hidden, 3 * hidden),
            nn.Linear(hidden, hidden),
        )

    def attend(self, x: Tensor) -> Tensor:
        """Causal self-attention with its residual, (batch, sequence, hidden) to the same."""
        batch, sequence, hidden = x.shape
        heads = self.qkv(self.before(x)).view(batch, sequence, 3, self.heads, hidden // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, sequence, hidden))
        return x + out

    def region(self, x: Tensor) -> Tensor:
        """(batch, sequence, hidden) to (batch, sequence, 4 hidden)."""
        return super().region(self.attend(x))


LAYERS: Mapping[str, Callable[[int], Layer]] = {"mlp": MlpLayer, "block": BlockLayer}
"""The workloads by name; each takes the hidden size."""


def make_workload(name: str, size: Size, device: torch.device) -> Workload:
    """A named workload, or the `Workload` that `FILE.py:factory` makes from the size and the device.

    Raises:
        WorkloadError: There is no such name, file or factory.
    """
    if ":" in name:
        return _from_file(name, size, device)
    if name not in LAYERS:
        raise WorkloadError(f"no workload {name!r}; there are {', '.join(LAYERS)}, or FILE.py:factory")
    layers = [_layer(LAYERS[name], size, device, seed) for seed in range(size.layers)]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size.batch, size.sequence, size.hidden, generator=generator).to(device, size.dtype)
    return Workload(name, tuple(layers), x.requires_grad_())


def _layer(build: Callable[[int], Layer], size: Size, device: torch.device, seed: int) -> Layer:
    def module() -> nn.Module:
        made = build(size.hidden)
        assert isinstance(made, nn.Module)
        return made

    layer = seeded_module(module, device, seed).to(size.dtype)
    assert isinstance(layer, MlpLayer)
    return layer


def _from_file(name: str, size: Size, device: torch.device) -> Workload:
    path, _, attribute = name.rpartition(":")
    if not Path(path).is_file():
        raise WorkloadError(f"no file {path!r} for the workload {name!r}; give FILE.py:factory")
    spec = importlib.util.spec_from_file_location("ckpt_bench_workload", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        made = getattr(module, attribute)(size, device)
    except Exception as error:
        raise WorkloadError(f"workload {name!r}: {type(error).__name__}: {error}") from error
    if not isinstance(made, Workload):
        raise WorkloadError(f"workload {name!r}: the factory gave {type(made).__name__}, not a Workload")
    return made
