"""Measure what candidates cost in time and memory, beside no checkpointing and torch's own."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ckpt_conformance.commands.numbers import whole

if TYPE_CHECKING:
    import torch

    from ckpt_conformance.bench.workloads import Size
    from ckpt_conformance.candidate import Candidate

_NUMBERS = ("layers", "hidden", "sequence", "batch")

USAGE: Final = "CANDIDATE ... [OPTIONS]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("candidates", nargs="+", metavar="CANDIDATE",
                        help="names of `list candidates`, or pkg.module:attribute")  # fmt: skip
    parser.add_argument("--device", default="auto", help="auto (the default), cpu or cuda")
    parser.add_argument("--region", default="mlp", metavar="NAME|FILE.py:FACTORY",
                        help="mlp (the default), block (with attention), or a file's function that "
                             "makes a bench.workloads.Workload from a size and a device")  # fmt: skip
    parser.add_argument("--size", nargs="+", default=[], type=_pair, metavar="KEY=VALUE",
                        help="layers=, hidden=, sequence=, batch= or dtype=, such as dtype=bfloat16; the "
                             "default is small on a CPU and fills a GPU")  # fmt: skip
    parser.add_argument("--rounds", type=whole, default=20, metavar="N", help="timed steps each (20)")
    parser.add_argument("--json", type=_writable, metavar="FILE", help="write the figures there")
    parser.add_argument("--chart", type=_writable, metavar="FILE", help="write a chart (SVG) there")


def execute(arguments: argparse.Namespace) -> int:
    """Measure, print the table, write what was asked for; 1 where a candidate could not be measured."""
    import torch

    from ckpt_conformance.bench.about import about
    from ckpt_conformance.bench.render import chart, data, table
    from ckpt_conformance.bench.run import bench
    from ckpt_conformance.bench.workloads import make_workload
    from ckpt_conformance.suite.options import device_named

    device = torch.device(device_named(arguments.device))
    candidates = _resolved(arguments.candidates)
    size = _size(dict(arguments.size), device)
    workload = make_workload(arguments.region, size, device)
    facts = about(device) | {"region": workload.name, "size": str(size), "rounds": str(arguments.rounds)}
    lines = bench(candidates, workload, rounds=arguments.rounds, progress=_progress(sys.stderr))
    sys.stdout.write(f"{facts['device']}, torch {facts['torch']}; {workload.name}: {size}\n")
    sys.stdout.write(table(lines, len(workload.layers)))
    if arguments.json:
        arguments.json.write_text(json.dumps(data(lines, **facts), indent=1) + "\n")
    if arguments.chart:
        arguments.chart.write_text(chart(lines, f"{workload.name}: {size}, {facts['device']}"))
    return 1 if any(line.error for line in lines) else 0


def _resolved(targets: Iterable[str]) -> Sequence[Candidate]:
    """The candidates, torch's non-reentrant one always first, each once."""
    from ckpt_conformance.catalog.torch_checkpoint import NONREENTRANT
    from ckpt_conformance.resolve import resolve

    named = [resolve(target) for target in targets]
    return list({candidate.name: candidate for candidate in (NONREENTRANT, *named)}.values())


def _size(given: dict[str, str], device: torch.device) -> Size:
    """The size that was asked for; what was not asked for as suits the device."""
    import torch

    from ckpt_conformance.bench.workloads import Size, WorkloadError

    default: dict[str, Any] = {}
    if device.type == "cuda":
        default = {"hidden": 2048, "sequence": 4096, "dtype": torch.bfloat16}
    wanted: dict[str, Any] = {key: int(value) for key, value in given.items() if key in _NUMBERS}
    if "dtype" in given:
        wanted["dtype"] = getattr(torch, given["dtype"], None)
        if not (isinstance(wanted["dtype"], torch.dtype) and wanted["dtype"].is_floating_point):
            raise WorkloadError(f"dtype={given['dtype']} is no floating-point type; float32 and bfloat16 are")
    return Size(**default | wanted)


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if key == "dtype" and value:
        return key, value
    if key not in _NUMBERS or not value.isdigit() or int(value) < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not one of {', '.join(f'{name}=N' for name in _NUMBERS)}, dtype=NAME"
        )
    return key, value


def _writable(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written")
    return path


def _progress(stream: Any) -> Callable[[str], None]:
    """To a terminal one line that changes; to a log a line for each thing that takes long."""
    if stream.isatty():
        return lambda line: print(f"\r\033[K{line}", end="" if line else "\r", file=stream, flush=True)
    return lambda line: None if line[:5] in {"", "round"} else print(line, file=stream, flush=True)
