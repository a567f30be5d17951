"""How long a stranger waits for a first verdict, from two commands: `python -m benchmarks.first_verdict`.

A fresh virtual environment has torch and pip, lent by this one. The two commands are those of the README's
quick start; pip gets our wheel from a folder, and all else from where it is set up to get packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.outside.environment import build_wheel, lend, make_environment

LIMIT = 60.0
"""How many seconds the two commands may take."""
STRANGER = '''\
"""A stranger's checkpoint function."""
import torch


class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, fn, *args):
        ctx.fn = fn
        ctx.save_for_backward(*args)
        with torch.no_grad():
            return fn(*args)

    @staticmethod
    def backward(ctx, *gradients):
        inputs = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in ctx.saved_tensors]
        with torch.enable_grad():
            torch.autograd.backward(ctx.fn(*inputs), gradients)
        return None, *(tensor.grad for tensor in inputs)


def checkpoint(fn, *args):
    return Recompute.apply(fn, *args)
'''


def main() -> int:
    """Run the two commands, print what they said last and how long they took."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wheel = build_wheel(place / "wheel")
        environment = make_environment(place / "fresh", lend(["torch", "pip"], place / "lent"))
        (place / "stranger.py").write_text(STRANGER)
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))
        }
        own["PATH"] = f"{environment.folder / 'bin'}{os.pathsep}{own['PATH']}"
        install = [environment.python, "-m", "pip", "install", "--quiet", "--find-links", wheel.parent]
        commands = ([*install, "ckpt-conformance"], ["ckpt-conformance", "run", "stranger:checkpoint"])
        seconds = [timed(list(map(str, command)), place, own) for command in commands]
    print(f"two commands: {' + '.join(f'{one:.1f}' for one in seconds)} = {sum(seconds):.1f} s")
    used = os.times().children_user + os.times().children_system
    print(f"CPU time {used:.1f} s, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    return 1 if sum(seconds) > LIMIT else 0


def timed(command: list[str], place: Path, own: dict[str, str]) -> float:
    """The wall seconds of a command that ends with 0 or, as a verdict, with 1."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=place, env=own, check=False, text=True, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - began
    print(f"$ {' '.join(command)}")
    print(*done.stdout.splitlines()[-2:], sep="\n")
    print(f"exit code {done.returncode}, {seconds:.1f} s\n")
    if done.returncode not in {0, 1} or "No module" in done.stdout:
        raise SystemExit(f"{command[0]} ended with {done.returncode}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
