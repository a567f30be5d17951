"""What a measurement was taken on: enough to repeat it, and to see when another machine differs."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

from ckpt_conformance import __version__


def about(device: torch.device) -> dict[str, str]:
    """Device, versions, command and time, as entries of a JSON object."""
    return {
        "command": _command(),
        "device": device_name(device),
        "package": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _command() -> str:
    """What was typed, without the folders of programs."""
    interpreter, *rest = sys.orig_argv
    words = (
        ["python", *rest] if rest[:1] == ["-m"] else [Path(sys.argv[0]).name or interpreter, *sys.argv[1:]]
    )
    return " ".join(words)


def device_name(device: torch.device) -> str:
    """The device as its vendor calls it; on a CPU with the number of threads that torch uses."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_processor()}, {torch.get_num_threads()} threads"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
