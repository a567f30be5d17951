"""The caching allocator's own record, in the format that https://pytorch.org/memory_viz opens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

_MOST_EVENTS = 100_000


@contextlib.contextmanager
def recorded(device: torch.device) -> Iterator[None]:
    """Have the allocator note every allocation and free, with the Python stack; nothing on a CPU."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=_MOST_EVENTS)
    try:
        yield
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)


def dump(path: Path) -> None:
    """Write the record so far, a pickle of plain data; call it within `recorded`.

    Raises:
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.cuda.memory._dump_snapshot(str(path))


def events() -> Iterator[tuple[str, int]]:
    """The record so far: what the allocator did, such as `alloc` or `free_completed`, and the bytes."""
    for trace in torch.cuda.memory._snapshot()["device_traces"]:
        yield from ((event["action"], event["size"]) for event in trace)
