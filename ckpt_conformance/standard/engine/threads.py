"""Backwards in other threads than the forward's, and in several at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch
from torch import Tensor

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.regions import Region
from ckpt_conformance.standard.compare import expect_program_like_plain, gradients_of
from ckpt_conformance.standard.engine.probe import backward, leaves, region
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import MAY, MUST, requirement

PATIENCE = 5.0
"""Seconds after which a thread that does not end is given up: a hang becomes a finding."""

MEETING = 0.4
"""Seconds for which two overlapping runs wait for each other; an implementation may keep them apart."""


def in_threads(*tasks: Callable[[], None]) -> None:
    """Run tasks in threads of their own, at once, and raise the first one's error here.

    Raises:
        TimeoutError: A task did not end.
    """
    errors: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]
    if any(thread.is_alive() for thread in threads):
        raise TimeoutError("a backward in another thread did not end")


@requirement("engine/backward-in-another-thread", MUST, since="2026.12", source="pytorch/pytorch#96764")
def backward_in_another_thread(candidate: Candidate, lab: Lab) -> None:
    """A backward in another thread than the forward's gives the plain run's gradients.

    On accelerators every backward runs in the engine's own threads; servers and schedulers use threads too.
    State kept in a thread-local of the forward is not there.

    How: keep what the recompute needs on the graph, not in thread-locals.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        result = which.run(region(x, weight))
        in_threads(lambda: backward(result))
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)


@requirement("engine/whole-step-in-another-thread", MUST, since="2026.12", source="pytorch/pytorch#96764")
def whole_step_in_another_thread(candidate: Candidate, lab: Lab) -> None:
    """Forward and backward in a thread that is not the main one give the plain run's gradients.

    Notebooks, servers and data-parallel wrappers train in threads. Signal handlers and thread-locals that are
    set up on import exist in the main thread alone.

    How: set thread-local state up on first use in each thread.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        x, weight = leaves(lab)
        in_threads(lambda: backward(which.run(region(x, weight))))
        return gradients_of(input=x, weight=weight)

    expect_program_like_plain(candidate, lab, program)


class _Meeting:
    """Where the runs of several regions wait for one another, so that they overlap every time."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties)

    def wait(self) -> None:
        try:
            self._barrier.wait(MEETING)
        except threading.BrokenBarrierError:
            # an implementation that lets one recompute run at a time is right, only slower: go on
            return


@requirement(
    "engine/two-threads",
    MAY,
    since="2026.12",
    source=("pytorch/pytorch#96764", "pytorch/pytorch#18568"),
    capability="threads",
)
def two_threads(candidate: Candidate, lab: Lab) -> None:
    """Two threads, each with a forward and a backward of its own that overlap, each get the plain gradients.

    A global "the region that is being recomputed", checked and then set, sends one thread's values into the
    other's graph. The runs meet in the middle of the region here, so that they overlap every time.

    How: keep nothing of a recompute in a global; key it by region and backward.
    """

    def program(which: Candidate, device: torch.device) -> dict[str, Tensor | None]:
        del device
        meeting = _Meeting(2)
        pairs = [(lab.tensor(4, 8, seed=n), lab.tensor(8, 8, seed=n + 10)) for n in range(2)]

        def task(x: Tensor, weight: Tensor) -> Callable[[], None]:
            def fn(given: Tensor) -> Tensor:
                product = given @ weight
                meeting.wait()
                return product.tanh() * 2

            return lambda: backward(which.run(Region(fn, (x,), parameters={"weight": weight})))

        in_threads(*(task(x, weight) for x, weight in pairs))
        (x0, w0), (x1, w1) = pairs
        return gradients_of(input_0=x0, weight_0=w0, input_1=x1, weight_1=w1)

    expect_program_like_plain(candidate, lab, program)
