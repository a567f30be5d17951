"""What to make of the objects along a path, given the phase of the training: expected, or overdue."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ckpt_conformance.instruments.trace.native import Sort, raw_saved, saved_data, sort_of
from ckpt_conformance.leaks.facts import TensorFacts

_CONTAINERS = (list, dict, set, deque)


def verdicts_of(objects: list[Any], labels: list[str], born: Mapping[int, int]) -> list[str]:
    """A verdict on each object of a path that a reference leads to; empty where there is nothing to say.

    Args:
        objects: The beginning, and what each reference leads to.
        labels: How each reference is written; one less.
        born: The step in which a tensor was made, by its id.
    """
    step = min((born[id(value)] for value in objects if id(value) in born), default=None)
    return [_verdict(value, text, born, step) for value, text in zip(objects[1:], labels, strict=True)]


def _verdict(value: Any, text: str, born: Mapping[int, int], step: int | None) -> str:
    if isinstance(value, Tensor):
        return _of_tensor(value, text, born.get(id(value)))
    if sort_of(type(value)) is Sort.NODE:
        return _of_node(value, step)
    if isinstance(value, torch.nn.Module):
        return "module: expected"
    if isinstance(value, torch.optim.Optimizer):
        return "optimizer: expected"
    if isinstance(value, ModuleType):
        return "Python module: lives as long as the process"
    if isinstance(value, _CONTAINERS) and text != ".__dict__":
        return f"container: holds {len(value)} now"
    return ""


def _of_tensor(tensor: Tensor, text: str, step: int | None) -> str:
    if isinstance(tensor, torch.nn.Parameter):
        return "parameter: expected"
    if text == ".grad":
        return "gradient: lives until it is set to None"
    if step is None:
        return "tensor made before the steps that count, or in the last one"
    return f"tensor made in step {step}, which is over: should be gone"


def _of_node(node: Any, step: int | None) -> str:
    if hasattr(node, "variable"):
        return "a leaf's gradient accumulator: goes with the graph"
    when = f" of step {step}" if step is not None else ""
    saved = list(raw_saved(node))
    if saved and all(saved_data(one) is None for _, one in saved):
        return f"backward{when} done: should be gone"
    if saved:
        return f"graph{when}, with what it saved, so backward did not free it: should be gone"
    return f"graph{when}: should be gone once the step is over"


def tensor_facts(tensor: Tensor, *, is_gradient: bool, sharing: int) -> TensorFacts:
    """The facts of one tensor."""
    base = tensor._base if tensor._is_view() else None  # noqa: SLF001
    return TensorFacts(
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype),
        device=str(tensor.device),
        version=-1 if tensor.is_inference() else tensor._version,  # noqa: SLF001
        role=_role(tensor, is_gradient=is_gradient),
        view_of=f"{type(base).__name__}{list(base.shape)}" if base is not None else "",
        sharing=sharing,
    )


def _role(tensor: Tensor, *, is_gradient: bool) -> str:
    if isinstance(tensor, torch.nn.Parameter):
        return "parameter"
    if is_gradient:
        return "gradient"
    if tensor.grad_fn is not None:
        return f"activation, made by {type(tensor.grad_fn).__name__}"
    return "leaf that requires grad" if tensor.requires_grad else "tensor outside of any graph"
