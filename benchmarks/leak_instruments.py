"""What the leak instruments cost, on heaps of 10^4 to 10^6 objects, beside objgraph and an unguarded step.

Run `python benchmarks/leak_instruments.py`, or with the sizes of the heaps; nothing here is a test.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
import tracemalloc
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import objgraph
import torch

from ckpt_conformance.instruments.census import take_census
from ckpt_conformance.instruments.trace.explain import trace_all
from ckpt_conformance.instruments.trace.walk import Walk, undisturbed
from ckpt_conformance.leaks import leak_guard

STEP = 0.05
KEPT: list[Any] = []
"""The root of what is buried: objgraph is told to look for it."""
HOPS = (6, 8, 10)
SHARING = (0, 100, 1000)


class Stage:
    """A link of the chain that a tensor is buried in: two references to the next."""

    def __init__(self, below: object) -> None:
        self.held = [below]


def samples(number: int, config: object) -> list[dict[str, Any]]:
    """A data set as a loader keeps it: four containers a sample, all of which share one configuration."""
    return [{"ids": [at], "meta": {"index": [at]}, "config": config} for at in range(number)]


def heap(objects: int) -> list[Any]:
    """About so many objects that the collector tracks: a model's modules, and a data set's samples."""
    model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(objects // 1000)))
    return [model, samples(objects // 4, {"name": "shared by all of these, and no way to the tensor"})]


def bury(hops: int, sharing: int) -> weakref.ref[torch.Tensor]:
    """Hide a tensor so many references below a root; so many samples share an object half-way down."""
    tensor = torch.ones(3)
    link: object = tensor
    for depth in range(hops // 2):
        link = Stage(link)
        if depth == 1:
            KEPT.append(samples(sharing, link))
    KEPT.insert(0, link)
    return weakref.ref(tensor)


def seconds(run: Callable[[], Any], times: int = 3) -> float:
    """The median of some runs."""
    found = []
    for _ in range(times):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return statistics.median(found)


def measure(objects: int) -> None:
    """Print the figures for one size of heap; each by CPU time, as other processes may run."""
    gc.collect()
    before = len(gc.get_objects())
    kept = heap(objects)
    tensors = [torch.empty(2) for _ in range(objects // 100)]
    gc.collect()
    tracked = len(gc.get_objects())
    census = seconds(take_census)
    say(
        f"{tracked - before:>8} made, {tracked:>8} tracked, {len(tensors):>6} tensors: "
        f"census {census:.3f} s, {bytes_per_object():.0f} bytes per object walked"
    )
    for hops in HOPS:
        for sharing in SHARING:
            compare(hops, sharing)
    del kept


def compare(hops: int, sharing: int) -> None:
    """Print what the same path costs the trace and objgraph, in one process and on one heap."""
    KEPT.clear()
    buried = bury(hops, sharing)
    ours = seconds(partial(_trace, buried))
    theirs = seconds(partial(_chain, buried), 1)
    say(
        f"    {hops:>2} hops, {sharing:>4} samples share an object on the way: trace {ours:.2f} s, "
        f"objgraph {theirs:.2f} s, {theirs / ours:.1f} times"
    )


def _trace(buried: weakref.ref[torch.Tensor]) -> None:
    assert trace_all([found for found in (buried(),) if found is not None])[0].path is not None


def _chain(buried: weakref.ref[torch.Tensor]) -> None:
    assert objgraph.find_backref_chain(buried(), _is_root, max_depth=60)[0] is KEPT


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _is_root(value: Any) -> bool:
    return value is KEPT


def bytes_per_object() -> float:
    """Peak memory of an exhaustive walk, by what Python allocates, for each object visited."""
    gc.collect()
    tracemalloc.start()
    walk = Walk()
    with undisturbed():
        walk.run([-1])
    peak, visited = tracemalloc.get_traced_memory()[1], len(walk.visited)
    walk.close()
    tracemalloc.stop()
    return peak / visited


def guarded() -> None:
    """Print what the guard adds to a step of 50 ms that leaks nothing."""
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(24)))
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        ends = time.perf_counter() + STEP
        optimizer.zero_grad()
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()
        while time.perf_counter() < ends:
            pass

    guard = leak_guard(steps=20)
    with guard as steps:
        for _ in steps:
            step()
    assert guard.report is not None
    cost = guard.report.seconds / 20
    say(f"guard: {1000 * cost:.2f} ms a step, {100 * cost / STEP:.1f} % of {STEP} s")


if __name__ == "__main__":
    guarded()
    for size in map(int, sys.argv[1:] or (10**4, 10**5, 10**6)):
        measure(size)
