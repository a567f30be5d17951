"""Measure the claims: `python -m ckpt_conformance.bench.claims restore floor peak step curves`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ckpt_conformance.bench.about import about
from ckpt_conformance.bench.claims.curves import measure_curves
from ckpt_conformance.bench.claims.floor import measure_floor
from ckpt_conformance.bench.claims.peak import measure_peak
from ckpt_conformance.bench.claims.restore import measure_restore
from ckpt_conformance.bench.claims.step import NAMES, installed, measure_step

_FLOORS = ((2, 8192, True), (4, 8192, True), (2, 4096, True), (2, 8192, False))
"""Layers, tokens, and whether something keeps the recomputed graph alive."""


def _floor(device: torch.device) -> list[Any]:
    shapes = ((layers, tokens, cycle) for layers, tokens, cycle in _FLOORS)
    return [
        found
        for layers, tokens, cycle in shapes
        for found in measure_floor(device, layers=layers, sequence=tokens, cycle=cycle)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print what was asked for; exit code 2 where there is no such device."""
    parser = argparse.ArgumentParser(prog="python -m ckpt_conformance.bench.claims", description=__doc__)
    options = _parsed(parser, arguments)
    device = torch.device(options.device)
    if device.type != "cuda" or not torch.cuda.is_available():
        sys.stderr.write("the claims are about CUDA, and there is no CUDA device here\n")
        return 2
    # cuBLAS is deterministic with a workspace of fixed size only, chosen before its first use
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    claims = _claims(options.snapshots)
    results = {name: [asdict(line) for line in claims[name](device)] for name in options.claims}
    text = json.dumps({**about(device), **results}, indent=1) + "\n"
    if options.json:
        options.json.write_text(text)
    sys.stdout.write(text)
    return 0


def _parsed(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser.add_argument("claims", nargs="+", choices=sorted(_claims(None)))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--snapshots", type=Path, metavar="DIR", help="leave the snapshots of `peak` there")
    return parser.parse_args(arguments)


def _claims(snapshots: Path | None) -> dict[str, Callable[[torch.device], Sequence[Any]]]:
    return {
        "restore": measure_restore,
        "floor": _floor,
        "peak": lambda device: measure_peak(device, snapshots),
        "step": measure_step,
        "curves": lambda device: measure_curves(list(installed(NAMES)), device),
    }


if __name__ == "__main__":
    sys.exit(main())
