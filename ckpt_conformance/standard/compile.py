"""compile: regions inside torch.compile, and around compiled functions (eager backend)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, sample
from ckpt_conformance.standard.compare import expect_program_like_plain, gradients_of
from ckpt_conformance.standard.evidence import violated
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, RECOMPUTING, requirement

SLOW = "tracing and importing torch's compiler take seconds"


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under torch.compile, run eagerly, from an empty cache."""
    torch.compiler.reset()
    made: Callable[..., Any] = torch.compile(function, backend="eager")
    return made


def with_a_region(candidate: Candidate, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function with a region in its middle, to be compiled."""

    def step(x: Tensor) -> Tensor:
        result: Tensor = candidate.run(Region(function, (x.sin(),))).square()
        return result

    return step


def inside(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A compiled function with a region in its middle."""
    x, weight = sample(4, 8, device=device), sample(8, 8, device=device, seed=1)

    step = with_a_region(candidate, lambda h: torch.nn.functional.gelu(h @ weight).tanh())
    compiled(step)(x).sum().backward()
    return gradients_of(x=x, weight=weight)


@requirement(
    "compile/inside-a-compiled-function",
    MAY,
    since="2026.12",
    capability="compile",
    source="pytorch/pytorch#139989",
    slow=SLOW,
    full=True,
)
def inside_a_compiled_function(candidate: Candidate, lab: Lab) -> None:
    """A region inside a compiled function has the plain run's gradients.

    The compiler traces through the implementation, or breaks the graph there and runs it eagerly; both are
    fine. Hooks and contexts that are traced away are not.

    How: `torch.compiler.disable` on the implementation's entry is enough to be right.
    """
    expect_program_like_plain(candidate, lab, inside)


def around(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A region whose function is compiled, used twice."""
    weight = sample(8, 8, device=device)
    function = compiled(lambda x: torch.nn.functional.gelu(x @ weight).tanh())
    first, second = sample(4, 8, device=device, seed=1), sample(4, 8, device=device, seed=2)
    for x in (first, second):
        candidate.run(Region(function, (x,), parameters={"weight": weight})).square().sum().backward()
    return gradients_of(first=first, second=second, weight=weight)


@requirement(
    "compile/around-a-compiled-function",
    MAY,
    since="2026.12",
    capability="compile",
    source="pytorch/pytorch#166926",
    slow=SLOW,
    full=True,
)
def around_a_compiled_function(candidate: Candidate, lab: Lab) -> None:
    """A region whose function is compiled has the plain run's gradients.

    The usual order is to compile each layer and checkpoint it. A recompute in another ambient state misses
    the compiled code's guards, compiles again, and may save other tensors.

    How: recompute in the state of the forward, so that the same compiled code runs.
    """
    expect_program_like_plain(candidate, lab, around)


def with_a_graph_break(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A compiled function with a region that breaks the graph."""
    x, weight = sample(4, 8, device=device), sample(8, 8, device=device, seed=1)

    def region(h: Tensor) -> Tensor:
        hidden = h @ weight
        torch._dynamo.graph_break()
        return hidden.tanh().exp()

    compiled(with_a_region(candidate, region))(x).sum().backward()
    return gradients_of(x=x, weight=weight)


@requirement(
    "compile/graph-break-in-a-region",
    MAY,
    since="2026.12",
    capability="compile",
    source="pytorch/pytorch#139989",
    slow=SLOW,
    full=True,
)
def graph_break_in_a_region(candidate: Candidate, lab: Lab) -> None:
    """A region that breaks the graph of the compiled function around it still has right gradients.

    Printing, data-dependent branches and unknown extensions break graphs. The rest of the region then runs
    in another frame, whose hooks and contexts must be the same.

    How: `torch.compiler.disable` on the implementation's entry is enough to be right.
    """
    expect_program_like_plain(candidate, lab, with_a_graph_break)


@requirement(
    "compile/recomputes-when-compiled",
    MAY,
    since="2026.12",
    capability="compile",
    styles=RECOMPUTING,
    source="pytorch/pytorch#160773",
    slow=SLOW,
    full=True,
)
def recomputes_when_compiled(candidate: Candidate, lab: Lab) -> None:
    """A region inside a compiled function is recomputed in the backward, as it is without the compiler.

    A compiler that runs the region's body as it is gives right values and saves no memory at all. Nothing
    says so until the batch no longer fits.

    How: keep the implementation out of the trace, or check that the backend honours the region.
    """
    x, weight = lab.tensor(4, 8), lab.tensor(8, 8, seed=1)

    runs: list[str] = []

    @torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
    def activation(h: Tensor) -> Tensor:
        # part of the graph as it stands, so that it counts in whatever thread it runs
        runs.append("gelu")
        return torch.nn.functional.gelu(h)

    step = with_a_region(candidate, lambda h: activation(h @ weight).tanh())
    loss = compiled(step)(x).sum()
    runs.clear()
    loss.backward()
    if not runs:
        violated(
            "nothing was recomputed under torch.compile",
            expected="the region's activation runs again in the backward",
            found="it never does: the activations were kept, and no memory saved",
        )
