"""Verify one candidate many times, and say whether a verdict ever differed.

A verdict that depends on how busy the machine is, or on which requirement came before, is worth nothing:

    python -m benchmarks.steady_verdicts torch-nonreentrant --runs 100 --load 2 --cpus 0,1
    python -m benchmarks.steady_verdicts reference --runs 20 --shuffle

Ends with 0 where every run gave the same verdicts, with 1 where one did not, with 2 where a run gave none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ckpt_conformance.suite.launch import plan, verify
from ckpt_conformance.suite.options import Options

_SPIN = "while True: pass"
_ONE = "--one"


def main() -> int:
    """Run, compare, and tell."""
    arguments = _parser().parse_args()
    if arguments.cpus:
        os.sched_setaffinity(0, {int(number) for number in arguments.cpus.split(",")})
    if arguments.one:
        return _one(arguments)
    with _load(arguments.load), TemporaryDirectory() as folder:
        runs = [_run(arguments, number, Path(folder)) for number in range(1, arguments.runs + 1)]
    return _compare([run for run in runs if run], arguments.runs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("candidate", help="a name of `list candidates`, or pkg.module:attribute")
    parser.add_argument("--runs", type=int, default=100, metavar="N", help="how many whole runs (100)")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="busy processes next to them (0)")
    parser.add_argument("--cpus", metavar="0,1", help="use these processors only, for the load too")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="worker processes of a run (2)")
    parser.add_argument("--select", nargs="+", default=[], metavar="NAME", help="families or requirement ids")
    parser.add_argument("--shuffle", action="store_true", help="each run in another order; seeds 1, 2, ...")
    parser.add_argument(_ONE, type=Path, metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    return parser


@contextmanager
def _load(processes: int) -> Iterator[None]:
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def _run(arguments: argparse.Namespace, number: int, folder: Path) -> dict[str, str]:
    """The verdicts of one run, which has a process of its own; empty where it gave none."""
    file = folder / f"{number}.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks.steady_verdicts",
        arguments.candidate,
        "--workers",
        str(arguments.workers),
    ]
    command += ["--select", *arguments.select] if arguments.select else []
    command += ["--seed", str(number)] if arguments.shuffle else []
    began = time.monotonic()
    done = subprocess.run([*command, _ONE, str(file)], check=False, capture_output=True, text=True)
    verdicts: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(verdicts.values()).items()))
    seconds = time.monotonic() - began
    print(f"run {number}: {told or done.stderr.strip()[-500:]} in {seconds:.0f} s", flush=True)
    return verdicts


def _one(arguments: argparse.Namespace) -> int:
    """Verify once, in this process, and leave the verdicts in the file."""
    options = Options(
        targets=(), style=None, device="cpu", select=tuple(arguments.select), full=False, expect=None,
        seconds=None, order=arguments.seed,
    )  # fmt: skip
    outcome = verify(plan(arguments.candidate, options, report=None, workers=arguments.workers))
    if outcome.faults:
        print(dict(outcome.faults), outcome.log[-2000:], file=sys.stderr)
    verdicts = {finding.requirement: str(finding.verdict) for finding in outcome.run.findings}
    arguments.one.write_text(json.dumps(verdicts | dict.fromkeys(outcome.faults, "fault")))
    return 0


def _compare(runs: list[dict[str, str]], wanted: int) -> int:
    differing = [id_ for id_ in sorted({id_ for run in runs for id_ in run}) if _verdicts(runs, id_)[1:]]
    for id_ in differing:
        told = ", ".join(f"{verdict} in {count}" for verdict, count in _verdicts(runs, id_))
        print(f"DIFFERS {id_}: {told}")
    print(f"{wanted} runs, {wanted - len(runs)} without a result, {len(differing)} requirements that differ")
    return 2 if len(runs) < wanted else bool(differing)


def _verdicts(runs: list[dict[str, str]], id_: str) -> list[tuple[str, int]]:
    return Counter(run.get(id_, "nothing") for run in runs).most_common()


if __name__ == "__main__":
    sys.exit(main())
