"""Which Python runs which candidate: packages whose requirements clash live in environments of their own.

An environment is made when first needed and used again afterwards. It lies over the environment that runs the
matrix: it sees that one's torch and pytest, so no package can bring another torch along.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ckpt_conformance.report.model import ReportError


@dataclass(frozen=True, slots=True)
class Environment:
    """What is installed together.

    Attributes:
        name: The folder's name.
        packages: What pip installs without looking at what they ask for: several pin an older torch.
        needs: What they import, installed with all that it asks for in turn.
        candidates: The catalog names that run in it.
        options: More options for pip.
    """

    name: str
    packages: tuple[str, ...]
    needs: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


ENVIRONMENTS: Final = (
    Environment(
        "shared",
        (
            "deepspeed==0.19.8", "fairscale==0.4.13", "transformers==5.24.0", "unsloth_zoo==2026.10.9",
            "torchgpipe==0.0.7", "invtorch==0.5.0", "torch_remat==0.2.2", "spikingjelly==2.0.0",
            "pytorch-pfn-extras==0.9.0", "nanotron==0.4", "accelerate==1.15.0",
        ),
        (
            "psutil", "regex", "loguru", "py-cpuinfo", "hjson", "msgpack", "pydantic", "tqdm", "einops",
            "pyyaml", "requests", "huggingface_hub", "safetensors", "tokenizers", "numpy", "packaging",
            "pillow",
        ),
        (
            "deepspeed", "deepspeed-nonreentrant", "deepspeed-tiled-mlp", "fairscale", "fairscale-offload",
            "transformers-reentrant", "transformers-nonreentrant", "unsloth", "unsloth-offload",
            "unsloth-smart", "torchgpipe", "invtorch", "torch-remat", "spikingjelly", "spikingjelly-module",
            "pfn-extras", "nanotron",
        ),
    ),
    Environment(
        "megatron",
        ("megatron-core==0.19.2",),
        ("numpy", "packaging", "ninja"),
        ("megatron", "megatron-discard"),
        # the wheel for Python 3.11 says that it needs 3.12
        ("--ignore-requires-python",),
    ),
    Environment(
        "megatron-0.16",
        ("megatron-core==0.16.1",),
        ("numpy", "packaging"),
        ("megatron-0.16", "megatron-0.16-discard"),
    ),
    Environment("liger", ("liger-kernel==0.8.5", "triton==3.9.0"), (), ("liger-tiled-mlp",)),
    Environment("xformers", ("xformers==0.0.35",), ("numpy",), ("xformers",)),
    # transformers takes torchvision for usable where it is installed, so it is next to timm alone
    Environment(
        "timm",
        ("timm==1.0.31", "torchvision==0.28.0"),
        ("numpy", "pillow", "pyyaml", "huggingface_hub", "safetensors"),
        ("timm",),
    ),
    Environment(
        "veomni",
        ("veomni==0.1.12", "transformers==5.9.0", "accelerate==1.15.0"),
        (
            "tokenizers==0.22.2", "huggingface_hub==1.17.0", "numpy", "packaging", "psutil", "pyyaml",
            "regex", "rich", "safetensors", "pillow", "tqdm", "sentencepiece",
        ),
        ("veomni",),
    ),
    Environment(
        "trainers",
        (
            "axolotl==0.19.0", "arctic-training==0.8.0", "deepspeed==0.19.8", "transformers==5.24.0",
            "accelerate==1.15.0", "peft==0.21.2", "trl==1.16.0", "liger-kernel==0.8.5", "evaluate==0.4.6",
            "bitsandbytes==0.50.2", "triton==3.9.0",
        ),
        (
            "datasets==5.2.0", "wandb==0.31.0", "devtools", "pandas", "psutil", "regex", "loguru",
            "py-cpuinfo", "hjson", "msgpack", "pydantic", "einops", "tabulate", "sentencepiece",
            "safetensors", "tokenizers", "pillow", "cloudpickle", "rich", "numpy", "packaging",
        ),
        ("arctic", "axolotl-tiled-mlp"),
    ),
)  # fmt: skip
"""Every environment; a candidate in none of them runs where the matrix does."""


def environment_of(candidate: str) -> Environment | None:
    """The environment that a candidate runs in, or None where it needs none of its own."""
    return next((made for made in ENVIRONMENTS if candidate in made.candidates), None)


def interpreter(candidate: str, given: Mapping[str, Path], folder: Path | None) -> Path:
    """The Python that runs a candidate.

    Args:
        candidate: Its name in the catalog.
        given: Name of a candidate or an environment to interpreter: what the user said.
        folder: Where environments are made; None to make none and use the running Python.

    Raises:
        ReportError: pip could not make the environment.
    """
    environment = environment_of(candidate)
    names = [candidate, *([environment.name] if environment else [])]
    said = next((given[name] for name in names if name in given), None)
    if said is not None:
        return said
    if environment is None or folder is None:
        return Path(sys.executable)
    return make(environment, folder)


def make(environment: Environment, folder: Path) -> Path:
    """The environment's Python; installs it first unless it is complete.

    Raises:
        ReportError: pip failed; its last lines.
    """
    place = folder.absolute() / environment.name
    python, complete = place / "bin" / "python", place / "complete"
    wanted = "\n".join([*environment.packages, *environment.needs, ""])
    if complete.is_file() and complete.read_text() == wanted:
        return python
    venv.create(place, clear=True, with_pip=False)
    inner = place / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (inner / "zz_below.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    _install(python, [*environment.options, "--no-deps", *environment.packages])
    if environment.needs:
        _install(python, list(environment.needs))
    complete.write_text(wanted)
    return python


def _install(python: Path, what: list[str]) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *what]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)  # noqa: S603 - our own table
    if done.returncode:
        said = " ".join(done.stderr.split()[-40:])
        raise ReportError(f"pip could not make the environment of {python}: {said}")
