"""Run the command line and pytest as a user would: in a process of their own, from another directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Shell:
    """A directory in which processes are started."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def run(self, *arguments: str, timeout: float = 300, **environment: str) -> Ended:
        """`ckpt-conformance ARGUMENTS` in the directory."""
        return self.python("-m", "ckpt_conformance", *arguments, timeout=timeout, **environment)

    def pytest(self, *arguments: str, **environment: str) -> Ended:
        """Pytest with our plugin and xdist, and nothing else that may be installed."""
        loaded = ["-p", "ckpt_conformance.plugin", "-p", "xdist", "-p", "no:cacheprovider"]
        environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environment
        return self.python("-m", "pytest", *loaded, *arguments, **environment)

    def python(self, *arguments: str, timeout: float = 300, **environment: str) -> Ended:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def report(self, folder: str = "out") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / folder / "report.json").read_text())
        return found

    def findings(self, folder: str = "out") -> dict[str, dict[str, Any]]:
        return {finding["requirement"]: finding for finding in self.report(folder)["findings"]}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell in an empty directory."""
    return Shell(tmp_path)


@pytest.fixture(scope="module")
def module_shell(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shell]:
    """Makes a shell whose directory the tests of a module share."""
    return lambda name: Shell(tmp_path_factory.mktemp(name))
