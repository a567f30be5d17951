"""What a report says of the run around it: the command that repeats it, versions, and what cannot be seen."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from pathlib import Path

import torch

from ckpt_conformance import __version__


def command() -> str:
    """What runs the steps again: the pytest test that runs now, or the process's own command line."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if test:
        return f"pytest {shlex.quote(test)}"
    given = sys.orig_argv[1:]
    if not given or given[0] == "-c":
        return ""
    return shlex.join(["python", *(_relative(word) for word in given)])


def _relative(word: str) -> str:
    path = Path(word)
    inside = path.is_absolute() and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if inside else word


def about() -> str:
    """The versions of torch, Python and this package."""
    return f"torch {torch.__version__}, Python {platform.python_version()}, ckpt-conformance {__version__}"


def blind_spots(device: torch.device | None) -> tuple[str, ...]:
    """What the guard cannot see here, each as one sentence."""
    found = [
        "Saved tensors that a C++ function keeps to itself, and memory of other libraries, are not seen.",
        "Tensors that were there before the first step are not followed, unless they get gradients.",
        "The version of a tensor when it was saved cannot be read from Python.",
    ]
    if device is not None:
        found.append(f"Only tensors on {device} were counted.")
    if not torch.cuda.is_initialized():
        found.append("The CPU's allocator has no counter, so bytes without a tensor are not seen.")
    return tuple(found)
