"""What is put to the test, and how it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ckpt_conformance.regions import Consumer, Region, keep_saved

CURRENT_SPEC = "2026.12"
"""The standard's newest version: what a candidate is held to unless it pins another."""

CAPABILITIES: Mapping[str, str] = {
    "kwargs": "the region takes keyword arguments",
    "containers": "the region's inputs may be nested containers that hold tensors",
    "output-containers": "the region may return nested containers",
    "non-tensors": "the region takes and returns values that are no tensors",
    "autograd-grad": "torch.autograd.grad works through the region",
    "inputs": "backward(inputs=...) works through the region",
    "retain-graph": "a second backward with retain_graph works",
    "double-backward": "create_graph gives right second derivatives",
    "forward-ad": "forward-mode derivatives go through the region",
    "rng": "the random state of the forward is replayed in the recompute",
    "generators": "explicit torch.Generator arguments are replayed",
    "modes": "torch function and dispatch modes of the forward are active in the recompute",
    "batch-statistics": "statistics that a module gathers are counted once although it runs twice",
    "threads": "backwards of separate graphs may run in several threads at once",
    "compile": "works inside torch.compile",
    "subclasses": "wrapper tensor subclasses go through the region",
    "cuda-graphs": "a step with the region can be captured in a CUDA graph",
}
"""What a candidate may leave out, by refusing clearly; declaring one turns a refusal into a failure."""


class Style(StrEnum):
    """How a candidate is called; see the design's table of words."""

    FUNCTION = "function"
    DISCARDING = "discarding"
    WRAPPER = "wrapper"
    CONTEXT = "context"


class CandidateError(Exception):
    """A candidate that cannot be had; the message is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A failure that the candidate's author knows about.

    Attributes:
        reason: Why it fails, for the reader of the report.
        kind: `bug`, `unsupported` (by design) or `flaky` (may pass or fail).
        issue: Where it is tracked, such as `mylib#12`.
        when: A version specifier of torch, such as `<2.7`; None means always.
    """

    reason: str
    kind: Literal["bug", "unsupported", "flaky"] = "bug"
    issue: str | None = None
    when: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An implementation under test, and how it is called.

    Make one with `from_function`, `from_discarding`, `from_wrapper` or `from_context`.

    Attributes:
        name: What the report calls it.
        style: The calling style.
        target: The checkpoint function, the class or factory of discarding objects, the module wrapper, or
            the factory of context managers.
        spec: The version of the standard that it is held to; newer requirements are advisory.
        capabilities: What it promises beyond what every candidate must do (keys of `CAPABILITIES`).
        expected_failures: Requirement id to why it fails.
        distribution: The installed distribution whose version the report names.
        remark: One line for the report, such as the backend in use.
    """

    name: str
    style: Style
    target: Callable[..., Any]
    spec: str = CURRENT_SPEC
    capabilities: frozenset[str] = frozenset()
    expected_failures: Mapping[str, Expected] = field(default_factory=dict)
    distribution: str | None = None
    remark: str = ""

    def __post_init__(self) -> None:
        if not callable(self.target):
            raise CandidateError(f"candidate {self.name!r}: {self.target!r} cannot be called")
        unknown = sorted(self.capabilities - CAPABILITIES.keys())
        if unknown:
            known = ", ".join(sorted(CAPABILITIES))
            raise CandidateError(
                f"candidate {self.name!r}: unknown capability {unknown[0]!r}; known are {known}"
            )

    @classmethod
    def from_function(cls, checkpoint: Callable[..., Any], *, name: str, **options: Any) -> Candidate:
        """A candidate called as `checkpoint(fn, *args, **kwargs)`."""
        return cls._make(checkpoint, name, Style.FUNCTION, **options)

    @classmethod
    def from_discarding(cls, factory: Callable[[], Any], *, name: str, **options: Any) -> Candidate:
        """A candidate whose `factory()` makes an object for each use.

        The object has `checkpoint(fn, *args)` and, to be called once the consumer has run,
        `discard_output_and_register_recompute(hook_tensor)`.
        """
        return cls._make(factory, name, Style.DISCARDING, **options)

    @classmethod
    def from_wrapper(cls, wrap: Callable[[nn.Module], Any], *, name: str, **options: Any) -> Candidate:
        """A candidate called as `wrap(module)`, which gives the module to call."""
        return cls._make(wrap, name, Style.WRAPPER, **options)

    @classmethod
    def from_context(cls, context: Callable[[], Any], *, name: str, **options: Any) -> Candidate:
        """A candidate used as `with context(): fn(...)`."""
        return cls._make(context, name, Style.CONTEXT, **options)

    @classmethod
    def _make(
        cls,
        target: Callable[..., Any],
        name: str,
        style: Style,
        *,
        capabilities: Iterable[str] = (),
        **options: Any,
    ) -> Candidate:
        return cls(name=name, style=style, target=target, capabilities=frozenset(capabilities), **options)

    def run(self, region: Region, consumer: Consumer = keep_saved) -> Any:
        """Run a region under this candidate, then the consumer, as a user of its style would.

        Args:
            region: The function with its inputs.
            consumer: What runs downstream. In the discarding style the output is discarded right after it,
                so it must not return the output or a view of it.

        Returns:
            What the consumer returned.
        """
        return _CALLS[self.style](self.target, region, consumer)


PLAIN = Candidate.from_function(lambda fn, *args, **kwargs: fn(*args, **kwargs), name="plain")
"""No checkpointing at all: what every candidate is compared with."""


def _call_function(target: Callable[..., Any], region: Region, consumer: Consumer) -> Any:
    return consumer(target(region.fn, *region.args, **region.kwargs))


def _call_discarding(target: Callable[..., Any], region: Region, consumer: Consumer) -> Any:
    use = target()
    result = consumer(use.checkpoint(region.fn, *region.args, **region.kwargs))
    hook_tensor = hook_tensor_of(result)
    if hook_tensor is not None:
        use.discard_output_and_register_recompute(hook_tensor)
    return result


def _call_wrapper(target: Callable[..., Any], region: Region, consumer: Consumer) -> Any:
    return consumer(target(RegionModule(region))(*region.args, **region.kwargs))


def _call_context(target: Callable[..., Any], region: Region, consumer: Consumer) -> Any:
    with target():
        output = region.plain()
    return consumer(output)


_CALLS: Mapping[Style, Callable[[Callable[..., Any], Region, Consumer], Any]] = {
    Style.FUNCTION: _call_function,
    Style.DISCARDING: _call_discarding,
    Style.WRAPPER: _call_wrapper,
    Style.CONTEXT: _call_context,
}


def hook_tensor_of(result: Any) -> Tensor | None:
    """The tensor whose gradient triggers the recompute: the first of the consumer's that needs one.

    None where nothing needs a gradient, as under no_grad: nobody discards an output there.
    """
    return next(
        (leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor) and leaf.requires_grad), None
    )


class RegionModule(nn.Module):
    """A region as the module that wrapper-style candidates ask for; its parameters are registered."""

    def __init__(self, region: Region) -> None:
        super().__init__()
        self._fn = region.fn
        for number, parameter in enumerate(region.parameters.values()):
            self.register_parameter(
                f"p{number}",
                torch.nn.Parameter(parameter) if not isinstance(parameter, nn.Parameter) else parameter,
            )
        self.train(getattr(region.fn, "training", True))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the region's function."""
        return self._fn(*args, **kwargs)
