"""The older shape of a checkpoint, done right: one node, a second run on detached inputs, a backward inside.

Most frameworks carry a function of this shape. It is here to compare with, and as a start for whoever cannot
leave it; `checkpoint.checkpoint` has none of its limits:

- Gradients of what the region reaches by closure are accumulated by the inner backward. So it works with
  `tensor.backward()` alone: `torch.autograd.grad`, `backward(inputs=...)`, second derivatives and
  forward-mode derivatives are refused.
- Hooks of a parameter that is used in several places run once for each, and hooks on several tensors at once
  never see all of them.
- Tensors that the region leaves elsewhere, or returns in an object that is no pytree, have no graph to go
  back through: that is refused. So are a second backward without retain_graph through another output, and a
  region that changes its inputs in place.
- A region that keeps hold of its own output (by closure, or by a function's context) keeps the whole node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from .ambient import Ambient
from .engine.captured import Captured, captured_values
from .engine.graph import mark_of_now, origins, since, survey
from .errors import CheckpointError


class Reentrant:
    """A checkpoint function, called as `Reentrant()(function, *args, **kwargs)`; a method for each step."""

    def __call__(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a region as one node of the graph.

        Args:
            function: The region.
            *args: Its inputs; tensors are found in nested containers too.
            **kwargs: The same.

        Returns:
            What `function` returned, its tensors cut off the graph within and put on the new node.

        Raises:
            CheckpointError: The region changed an input in place. In backward: what this shape cannot do was
                asked for, or the recompute differs.
        """
        if not torch.is_grad_enabled():
            return function(*args, **kwargs)
        leaves, spec = tree_flatten((args, kwargs))
        use = _Use(function, leaves, spec)
        # a parameter reached by closure needs gradients too, when no input does
        anchor = torch.empty(0, requires_grad=True)
        flat = _Region.apply(self, use, anchor, *(leaf for leaf in leaves if isinstance(leaf, Tensor)))
        return tree_unflatten(list(flat), use.out_spec)

    def forward(self, use: _Use, inputs: tuple[Tensor, ...]) -> list[Any]:
        """The first run: with a graph that shows what needs gradients, but saves nothing."""
        start, outside = mark_of_now(), origins([*inputs, *use.captured.tensors()])
        versions = [_version(tensor) for tensor in inputs]
        with torch.enable_grad(), use.ambient.generators.drawn_from(), saved_tensors_hooks(_drop, _refuse):
            leaves, use.out_spec = tree_flatten(use.function(*use.args, **use.kwargs))
        if versions != [_version(tensor) for tensor in inputs]:
            raise CheckpointError(
                f"{use.name} changed an input in place, so a reentrant checkpoint cannot run it again"
            )
        use.captured.settle(survey(leaves, since(start), outside).leaves)
        use.forms = [_form(leaf) for leaf in leaves]
        return leaves

    def backward(
        self, use: _Use, saved: tuple[Tensor, ...], gradients: tuple[Tensor | None, ...]
    ) -> list[Any]:
        """The gradients of the inputs, from a second run and a backward through it."""
        self.refuse_what_it_cannot(use)
        inputs = self.detach(saved)
        outputs = self.recompute(use, inputs)
        self.backward_through(outputs, gradients)
        return self.collect(inputs)

    def refuse_what_it_cannot(self, use: _Use) -> None:
        """An inner backward gives half of what other kinds of backward ask for."""
        if not torch.autograd._is_checkpoint_valid():
            raise CheckpointError(
                f"the reentrant checkpoint of {use.name} works with backward() alone, not with "
                "torch.autograd.grad or backward(inputs=...)"
            )
        if torch.is_grad_enabled():
            raise CheckpointError(
                f"the reentrant checkpoint of {use.name} gives no second derivatives (create_graph=True)"
            )

    def detach(self, saved: tuple[Tensor, ...]) -> list[Tensor]:
        """The inputs as leaves of the inner graph."""
        return [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in saved]

    def recompute(self, use: _Use, inputs: list[Tensor]) -> list[Any]:
        """The second run, with a graph; its output's leaves."""
        use.captured.check(use.name)
        args, kwargs = use.with_tensors(inputs)
        with use.ambient.replayed():
            leaves = tree_leaves(use.function(*args, **kwargs))
        forms = [_form(leaf) for leaf in leaves]
        if forms != use.forms:
            raise CheckpointError(f"the recompute of {use.name} gave {forms}, the forward {use.forms}")
        return leaves

    def backward_through(self, outputs: list[Any], gradients: tuple[Tensor | None, ...]) -> None:
        """Accumulate into the detached inputs and into what the region reaches by closure."""
        pairs = [
            (output, gradient)
            for output, gradient in zip(outputs, gradients, strict=True)
            if isinstance(output, Tensor) and output.requires_grad and gradient is not None
        ]
        if pairs:
            torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])

    def collect(self, inputs: list[Tensor]) -> list[Tensor | None]:
        """The gradients of the detached inputs, which then keep none.

        Whatever keeps the inner graph alive (a stashed tensor, a context that holds its output) keeps these
        inputs; a gradient left on them would live into the next iteration.
        """
        gradients = [tensor.grad for tensor in inputs]
        for tensor in inputs:
            tensor.grad = None
        return gradients


class _Use:
    """One use of a region: what its second run needs, but for the tensors, which the node saves."""

    def __init__(self, function: Callable[..., Any], leaves: list[Any], spec: Any) -> None:
        self.name = f"region {getattr(function, '__qualname__', type(function).__qualname__)}"
        self.function = function
        self.args, self.kwargs = tree_unflatten(leaves, spec)
        reached = captured_values(function)
        self.ambient = Ambient([*leaves, *reached])
        self.captured = Captured(reached)
        self.forms: list[Any] = []
        self.out_spec: Any = None
        self._leaves = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self._spec = spec

    def with_tensors(self, tensors: list[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these in place of their tensors."""
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = tree_unflatten(leaves, self._spec)
        return args, kwargs

    def let_go_of_inputs(self) -> None:
        """After the first run the node's saved tensors are the only ones."""
        self.args, self.kwargs = (), {}


class _Region(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, steps: Reentrant, use: _Use, _anchor: Tensor, *inputs: Tensor) -> tuple[Any, ...]:
        ctx.set_materialize_grads(False)
        ctx.steps, ctx.use = steps, use
        ctx.save_for_backward(*inputs)
        leaves = steps.forward(use, inputs)
        use.let_go_of_inputs()
        outputs = tuple(leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves)
        ctx.mark_non_differentiable(*_without_grad(leaves, outputs))
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        return (None, None, None, *ctx.steps.backward(ctx.use, ctx.saved_tensors, gradients))


def _without_grad(leaves: list[Any], outputs: tuple[Any, ...]) -> list[Tensor]:
    pairs = zip(leaves, outputs, strict=True)
    return [output for leaf, output in pairs if isinstance(leaf, Tensor) and not leaf.requires_grad]


def _drop(_tensor: Tensor) -> None:
    return None


def _refuse(_nothing: None) -> Tensor:
    raise CheckpointError(
        "a backward went through the inside of a reentrant region, whose first run keeps nothing: "
        "use the region's outputs only"
    )


def _form(leaf: Any) -> Any:
    return (tuple(leaf.shape), leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else type(leaf).__name__


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version
