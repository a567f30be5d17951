"""Compile `share_storage.cpp` at first use, keep it in a cache of the user's own, and load it."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

_NAME = "checkpoint_share_storage"
_SOURCE = Path(__file__).with_name("share_storage.cpp")
_SECONDS = 120
"""After this long a compiler counts as stuck."""


class BuildError(Exception):
    """The extension cannot be had here; the message is one line that says why."""


def load() -> Any:
    """The compiled module, built first where the cache has none.

    Several processes may call this at once: one builds, the others wait for it. A build that is killed leaves
    nothing that could stop the next: the kernel gives its lock back, and a file appears in the cache whole.

    Raises:
        BuildError: There is no compiler, it fails, or what it made cannot be loaded.
    """
    command = _command()
    library = _library(command)
    if not library.exists():
        _build(command, library)
    try:
        return _import(library)
    except ImportError as error:
        library.unlink(missing_ok=True)
        raise BuildError(f"the built extension does not load ({_one_line(str(error))})") from error


def _command() -> list[str]:
    """How to call the compiler, all but the names of the files.

    Raises:
        BuildError: The compiler or Python's headers are missing.
    """
    compiler = _compiler()
    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").exists():
        raise BuildError(f"Python's headers are missing (no Python.h in {headers})")
    root = Path(torch.__file__).parent
    return [
        *compiler,
        "-O1",
        "-fPIC",
        "-shared",
        *(["-undefined", "dynamic_lookup"] if platform.system() == "Darwin" else []),
        f"-std={_language()}",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(["-DSTORAGE_KEEPS_REFUSAL_PRIVATE"] if _keeps_refusal_private(root) else []),
        f"-I{root / 'include'}",
        f"-I{headers}",
        f"-L{root / 'lib'}",
    ]


def _keeps_refusal_private(root: Path) -> bool:
    """Whether a storage of this torch can refuse access, and has no function to undo that."""
    text = (root / "include" / "c10" / "core" / "StorageImpl.h").read_text()
    return "throw_on_immutable_data_ptr_ =" in text and "clear_data_ptr_access_error_msg_" not in text


def _compiler() -> list[str]:
    wanted = os.environ.get("CXX", "").split()
    if wanted and shutil.which(wanted[0]):
        return wanted
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BuildError("no C++ compiler was found (neither c++, g++ nor clang++, nor what CXX names)")


def _language() -> str:
    """The C++ that torch's own headers are written in."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return "c++20" if version >= (2, 11) else "c++17"


def _library(command: list[str]) -> Path:
    """Where the built file belongs: a name of its own for everything that it depends on."""
    key = hashlib.sha256()
    for part in (_SOURCE.read_text(), torch.__version__, str(torch.version.git_version), *command):
        key.update(part.encode() + b"\0")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    key.update(f"{suffix} {platform.machine()}".encode())
    return _cache() / f"{_NAME}-{key.hexdigest()[:16]}{suffix}"


def _cache() -> Path:
    """The cache folder, which nobody else may write to, since what lies there is run."""
    chosen = os.environ.get("CKPT_REFERENCE_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in [Path(chosen)] if chosen else [base / _NAME, Path(tempfile.gettempdir()) / _for_user()]:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(folder):
                return folder
    raise BuildError(
        "no folder of your own to build in was found; set CKPT_REFERENCE_CACHE to one with mode 0700"
    )


def _for_user() -> str:
    return f"{_NAME}-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    status = folder.lstat()
    mine = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return mine and not status.st_mode & 0o022 and os.access(folder, os.W_OK)


def _build(command: list[str], library: Path) -> None:
    with _locked(library.with_suffix(".lock")):
        if not library.exists():
            _compile(command, library)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One builder at a time; where files cannot be locked, several build and the last one's file stays."""
    import fcntl  # not on every platform that can import this file

    with path.open("w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(command: list[str], library: Path) -> None:
    # into a folder of its own and then moved: nobody ever sees half a file
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / library.name
        try:
            subprocess.run(  # noqa: S603 - the user's own compiler
                [*command, str(_SOURCE), "-o", str(made), "-lc10"],
                check=True,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.CalledProcessError as error:
            raise BuildError(f"{command[0]} failed: {_first_error(error.stderr)}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"{command[0]} failed: {_one_line(str(error))}") from error
        made.replace(library)


def _import(library: Path) -> Any:
    loader = importlib.machinery.ExtensionFileLoader(_NAME, str(library))
    spec = importlib.util.spec_from_file_location(_NAME, library, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def _first_error(output: str) -> str:
    lines = [line for line in output.splitlines() if "error" in line] or output.splitlines() or ["no output"]
    return _one_line(lines[0])


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
