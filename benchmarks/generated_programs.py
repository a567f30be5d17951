"""How many generated programs a second one core compares: `python -m benchmarks.generated_programs [NAME]`.

Generation, both runs and the comparison are included; this process and the one that runs the programs share
one core. The clock on the wall tells of whoever else is busy there, the CPU seconds do not.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
from dataclasses import dataclass, field

from ckpt_conformance.fuzz.hunt import hunt
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.worker import Answer, Worker
from ckpt_conformance.resolve import resolve

WANTED = 150.0
"""Programs a second."""


@dataclass(slots=True)
class Timed:
    """Compares programs, and notes how long each took since the one before."""

    worker: Worker
    seconds: list[float] = field(default_factory=list)
    since: float = 0.0

    def __call__(self, program: Program) -> Answer:
        """Compare one program; the first one starts the process that runs them, and is not counted."""
        answer = self.worker(program)
        if self.since:
            self.seconds.append(time.perf_counter() - self.since)
        self.since = time.perf_counter()
        return answer


def main() -> int:
    """Measure, print, and end with 1 where the median is below what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?", default="reference", help="a candidate (reference)")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    candidate = resolve(given.name)
    timed = Timed(Worker(lambda: candidate))
    gc.freeze()
    before = _cpu_seconds()
    catch = hunt(timed, examples=given.examples, start=given.seed)
    timed.worker.close()
    rate = 1 / statistics.median(timed.seconds)
    print(
        f"{candidate.name}: {rate:.0f} programs a second (median of {len(timed.seconds)}),"
        f" {catch.programs / (_cpu_seconds() - before):.0f} a CPU second, {len(catch.groups)} differences"
    )
    return 1 if rate < WANTED else 0


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    sys.exit(main())
