"""What having the package installed costs a pytest run that does not use it: `python -m benchmarks.startup`.

`pytest --collect-only` on a project with one test, in three environments by turns: pytest alone; with the
pytest plugins that our package needs; with our package too. Needs what `tests/outside` needs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.outside.environment import Environment, build_wheel, lend, make_environment

ALONE, PLUGINS, OURS = "pytest alone", "with the plugins we need", "with ours too"
NEEDED = ("torch", "pytest-xdist", "pytest-timeout", "objgraph", "packaging")
LIMIT = 0.050
"""How many seconds our package may add."""


def main() -> int:
    """Measure, print a table, and end with 1 where our package adds more than the limit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        made = environments(place)
        project = place / "project"
        project.mkdir()
        (project / "test_one.py").write_text("def test_one(): pass\n")
        taken = measured(made, project, rounds)
    for name, seconds in taken.items():
        print(f"{name:<26} median {statistics.median(seconds):.3f} s, least {min(seconds):.3f} s")
    added = statistics.median(taken[OURS]) - statistics.median(taken[PLUGINS])
    whole = statistics.median(taken[OURS]) - statistics.median(taken[ALONE])
    told = f"ours adds {1e3 * added:.0f} ms, with its plugins {1e3 * whole:.0f} ms"
    print(f"CPU time of {rounds} runs each; {told}")
    return 1 if added > LIMIT else 0


def environments(place: Path) -> dict[str, Environment]:
    """The three environments."""
    lent = lend(["pytest", "pip"], place / "alone")
    more = lend(["pytest", "pip", *NEEDED], place / "more")
    made = {name: make_environment(place / name.replace(" ", "-"), more) for name in (PLUGINS, OURS)}
    made[OURS].install(str(build_wheel(place / "wheel")))
    return {ALONE: make_environment(place / "pytest", lent), **made}


def measured(made: dict[str, Environment], project: Path, rounds: int) -> dict[str, list[float]]:
    """The CPU seconds of each run, the first of each environment left out: it compiles."""
    taken: dict[str, list[float]] = {name: [] for name in made}
    for turn in range(rounds + 1):
        for name, environment in made.items():
            seconds = collecting(environment, project)
            if turn:
                taken[name].append(seconds)
    return taken


def collecting(environment: Environment, project: Path) -> float:
    """The CPU seconds of one `pytest --collect-only`: wall time would tell of whoever else is busy."""
    before = os.times()
    command = [environment.python, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    subprocess.run(command, cwd=project, env=own, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    sys.exit(main())
