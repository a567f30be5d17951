"""subclasses: tensors that are more than tensors go through a region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region, pass_through, sample
from ckpt_conformance.standard.compare import expect_program_like_plain
from ckpt_conformance.standard.evidence import expect_equal
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import FUNCTION_LIKE, MAY, requirement


class Wrapped(Tensor):
    """A tensor that holds another one and a note, as quantized and sharded tensors do.

    Every operation works on the inner tensors and wraps what comes out, with the note of the first.
    """

    inside: Tensor
    note: str

    @staticmethod
    def __new__(cls, inner: Tensor, note: str) -> Self:
        """Wrap a tensor; the outside has its shape, strides and dtype."""
        made: Self = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )
        return made

    def __init__(self, inner: Tensor, note: str) -> None:
        self.inside = inner.detach()
        self.note = note

    def __repr__(self) -> str:  # type: ignore[override] # torch passes more only when it prints values
        """The note and the shape."""
        return f"Wrapped({self.note!r}, {list(self.shape)})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # torch types it as an instance method
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operation on what is inside."""
        notes = [value.note for value in args if isinstance(value, Wrapped)]
        bare = tree_map_only(Wrapped, lambda value: value.inside, (args, dict(kwargs or {})))
        result = func(*bare[0], **bare[1])
        note = notes[0] if notes else "made inside"
        return tree_map_only(Tensor, lambda value: Wrapped(value, note), result)


def bare(tensor: Tensor | None) -> Tensor | None:
    """What is inside a wrapped tensor."""
    return tensor.inside if isinstance(tensor, Wrapped) else tensor


def through_a_region(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A region on a wrapped input with a wrapped weight."""
    x = Wrapped(sample(4, 8, device=device, grad=False), "input").requires_grad_()
    weight = Wrapped(sample(8, 8, device=device, grad=False, seed=1), "weight").requires_grad_()
    result = candidate.run(Region(lambda x: (x @ weight).tanh().exp(), (x,), parameters={"weight": weight}))
    result.sum().backward()
    expect_equal("type of the input's gradient", Wrapped, type(x.grad))
    return {
        "result": bare(result.detach()),
        "gradient of x": bare(x.grad),
        "gradient of weight": bare(weight.grad),
    }


@requirement(
    "subclasses/wrapper-tensors",
    MAY,
    since="2026.12",
    capability="subclasses",
    source="pytorch/pytorch#96319",
)
def wrapper_tensors(candidate: Candidate, lab: Lab) -> None:
    """Wrapper subclasses, as inputs and as parameters, go through with right values and gradients.

    Quantized, sharded and nested tensors are wrappers: the outer tensor has no memory of its own. Code that
    reads storages, or copies into a plain buffer, sees zero bytes or loses what is inside.

    How: use operations that dispatch (`detach`), never the storage of a tensor that has none.
    """
    expect_program_like_plain(candidate, lab, through_a_region)


@requirement(
    "subclasses/type-and-attributes-kept",
    MAY,
    since="2026.12",
    capability="subclasses",
    styles=FUNCTION_LIKE,
    source="pytorch/pytorch#96319",
)
def type_and_attributes_kept(candidate: Candidate, lab: Lab) -> None:
    """Inputs and output keep their subclass and its attributes, in both runs.

    A detached input that became a plain tensor takes another kernel in the recompute; a note that was lost is
    a scale that was lost.

    How: detach by dispatch; build no tensor from a data pointer or from `.data`.
    """
    seen: list[str] = []

    def compute(x: Tensor) -> Tensor:
        seen.append(repr(x))
        return x.sin().exp()

    x = Wrapped(lab.tensor(4, 8, grad=False), "scale 3").requires_grad_()
    output = candidate.run(Region(compute, (x,)), pass_through)
    expect_equal("the region's output", repr(x), repr(output))
    output.sum().backward()
    expect_equal("the inputs that the region saw", {repr(x)}, set(seen))


def _whole(tensor: Any) -> Tensor | None:
    """A distributed tensor's global value."""
    return None if tensor is None else tensor.full_tensor()


def distributed_through_a_region(candidate: Candidate, device: torch.device) -> Mapping[str, Tensor | None]:
    """A region on distributed tensors, over a mesh of this one process."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh = init_device_mesh(device.type, (1,))
    x = DTensor.from_local(sample(4, 8, device=device, grad=False), mesh, [Shard(0)]).requires_grad_()
    weight = DTensor.from_local(
        sample(8, 8, device=device, grad=False, seed=1), mesh, [Replicate()]
    ).requires_grad_()
    result = candidate.run(Region(lambda x: (x @ weight).tanh().exp(), (x,), parameters={"weight": weight}))
    result.sum().backward()
    expect_equal("the input's gradient is a DTensor", True, isinstance(x.grad, DTensor))
    return {
        "result": _whole(result.detach()),
        "gradient of x": _whole(x.grad),
        "gradient of weight": _whole(weight.grad),
    }


@requirement(
    "subclasses/distributed-tensors",
    MAY,
    since="2026.12",
    capability="subclasses",
    devices=frozenset({"cpu"}),
    source="pytorch/pytorch#187437",
    slow="importing torch.distributed.tensor and setting a process group up takes seconds",
    full=True,
)
def distributed_tensors(candidate: Candidate, lab: Lab) -> None:
    """Distributed tensors go through a region with right values, gradients and placements.

    Fully sharded and tensor-parallel models have DTensor parameters. One process is enough to see whether
    they survive: they are wrapper subclasses with a mesh and placements.

    How: never take a tensor for its storage: detach and save the wrapper, mesh and placements included.
    """
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore

    if dist.is_initialized():
        expect_program_like_plain(candidate, lab, distributed_through_a_region)
        return
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        expect_program_like_plain(candidate, lab, distributed_through_a_region)
    finally:
        dist.destroy_process_group()
