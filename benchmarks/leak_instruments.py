"""What the leak instruments cost, on heaps of 10^4 to 10^6 objects, beside objgraph and an unguarded step.

Run `python benchmarks/leak_instruments.py`; nothing here is a test.
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

DEPTH = 12
STEP = 0.05


class Part:
    """An object with others below it, and a registry that it shares with others."""

    def __init__(self, registry: list[Part]) -> None:
        self.registry = registry
        self.children: list[Any] = []
        registry.append(self)


def heap(objects: int) -> list[Part]:
    """About so many objects that the collector tracks, each fifth one a `Part`."""
    parts: list[Part] = []
    for number in range(objects // 5):
        part = Part(parts)
        part.children.append([number, {"index": [number]}])
    return parts


def bury(crossed: int) -> weakref.ref[torch.Tensor]:
    """Hide a tensor `DEPTH` parts below a root, among others that refer to the top, as callbacks do."""
    top = part = Part([])
    for _ in range(DEPTH):
        below = Part(top.registry)
        part.children.append(below)
        part = below
    part.children.append(torch.ones(3))
    top.children += [Part(top.registry) for _ in range(crossed)]
    BURIED.append(top)
    return weakref.ref(part.children[-1])


BURIED: list[Part] = []


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
    parts = heap(objects)
    tensors = [torch.empty(2) for _ in range(objects // 100)]
    gc.collect()
    made, tracked = len(parts) * 5, len(gc.get_objects())
    census = seconds(take_census)
    say(
        f"{made:>8} made, {tracked:>8} tracked, {len(tensors):>6} tensors: census {census:.3f} s, "
        f"{bytes_per_object():.0f} bytes per object walked"
    )
    for crossed in (0, 400, 2000):
        BURIED.clear()
        buried = bury(crossed)
        ours = seconds(partial(_trace, buried))
        theirs = seconds(partial(_chain, buried), 1)
        say(
            f"    {crossed:>4} cross-references: trace {ours:.2f} s, "
            f"objgraph {theirs:.2f} s, {theirs / ours:.1f} times"
        )


def _trace(buried: weakref.ref[torch.Tensor]) -> None:
    assert trace_all([found for found in (buried(),) if found is not None])[0].path is not None


def _chain(buried: weakref.ref[torch.Tensor]) -> None:
    assert objgraph.find_backref_chain(buried(), _is_root, max_depth=60)[0] is BURIED


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _is_root(value: Any) -> bool:
    return value is BURIED


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
    for size in (10**4, 10**5, 10**6):
        measure(size)
