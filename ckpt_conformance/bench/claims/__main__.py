"""Measure the claims: `python -m ckpt_conformance.bench.claims restore floor curves --json FILE`."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ckpt_conformance import __version__
from ckpt_conformance.bench.claims.curves import measure_curves
from ckpt_conformance.bench.claims.floor import measure_floor
from ckpt_conformance.bench.claims.restore import measure_restore
from ckpt_conformance.catalog import reference, torch_checkpoint

_FLOORS = ((2, 8192, True), (4, 8192, True), (2, 4096, True), (2, 8192, False))
"""Layers, tokens, and whether something keeps the recomputed graph alive."""


def _restore(device: torch.device) -> list[Any]:
    return list(measure_restore(device))


def _floor(device: torch.device) -> list[Any]:
    shapes = ((layers, tokens, cycle) for layers, tokens, cycle in _FLOORS)
    return [
        found
        for layers, tokens, cycle in shapes
        for found in measure_floor(device, layers=layers, sequence=tokens, cycle=cycle)
    ]


def _curves(device: torch.device) -> list[Any]:
    candidates = (
        torch_checkpoint.REENTRANT,
        torch_checkpoint.NONREENTRANT,
        reference.reference(),
        reference.reference_discard(),
        reference.reference_reentrant(),
    )
    return list(measure_curves(candidates, device))


CLAIMS: dict[str, Callable[[torch.device], list[Any]]] = {
    "restore": _restore,
    "floor": _floor,
    "curves": _curves,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print what was asked for; exit code 2 where there is no such device."""
    parser = argparse.ArgumentParser(prog="python -m ckpt_conformance.bench.claims", description=__doc__)
    parser.add_argument("claims", nargs="+", choices=sorted(CLAIMS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    if device.type != "cuda" or not torch.cuda.is_available():
        sys.stderr.write("the claims are about CUDA, and there is no CUDA device here\n")
        return 2
    results = {name: [asdict(line) for line in CLAIMS[name](device)] for name in options.claims}
    text = json.dumps({**_about(device), **results}, indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    sys.stdout.write(text)
    return 0


def _about(device: torch.device) -> dict[str, str]:
    return {
        "package": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device),
    }


if __name__ == "__main__":
    sys.exit(main())
