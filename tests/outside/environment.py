"""A fresh environment that has what its owner would have: torch, pytest and its plugins, and our wheel.

torch alone is several hundred megabytes, so packages are lent: links to the named distributions of the
environment that runs the tests, and to what these declare that they need. Nothing else of it is visible,
neither an editable install of this project nor a package that ours imports without declaring it.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
_FOREIGN = re.compile(r"^(PYTEST_|PYTHON|CKPT_|COVERAGE_|TOX|VIRTUAL_ENV|PIP_|GITHUB_|FORCE_COLOR|COLUMNS)")

TARGET = "mylib.remat:checkpoint"
"""The candidate of which our documents speak; it is in fixtures/hosts/library."""
FEW = "-n 1 --select views/reshape-saved-by-consumer views/split-saved-by-consumer"


@dataclass(frozen=True)
class Ended:
    """How a process ended, and all that it said."""

    code: int
    said: str


@dataclass(frozen=True)
class Environment:
    """A virtual environment, or rather its folder."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *command: str, cwd: Path, timeout: float = 300, **variables: str) -> Ended:
        """Run a command with the environment's programs in front of all others, and nothing of ours."""
        own = {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)}
        path = f"{self.folder / 'bin'}{os.pathsep}{own.get('PATH', '')}"
        done = subprocess.run(
            command,
            cwd=cwd,
            env=own | {"PATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ended(done.returncode, done.stdout)

    def pytest(self, *arguments: str, cwd: Path) -> Ended:
        return self.run(str(self.python), "-m", "pytest", *arguments, cwd=cwd)

    def bash(self, script: str, cwd: Path, few: str = FEW, **variables: str) -> Ended:
        """Run a script as GitHub does, without pip, since all is installed, and with few requirements."""
        without_pip = re.sub(r"^\s*pip install .*$", "", script, flags=re.MULTILINE)
        script = without_pip.replace(f"run {TARGET}", f"run {TARGET} {few}")
        return self.run("bash", "-e", "-o", "pipefail", "-c", script, cwd=cwd, **variables)

    def install(self, *requirements: str) -> None:
        """Install with pip, from nowhere but what is named: all else has to be there."""
        pip = [str(self.python), "-m", "pip", "install", "--no-index", "--quiet", *requirements]
        ended = self.run(*pip, cwd=self.folder)
        assert ended.code == 0, ended.said


def build_wheel(folder: Path) -> Path:
    """Build our wheel into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(folder: Path, lent: Path) -> Environment:
    """A new virtual environment that sees the packages in a folder of lent ones."""
    # pip is lent too: the bundled one takes seconds, and brings an old setuptools with it
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(f"{lent}\n")
    # the packages are lent without their programs
    program = folder / "bin" / "pytest"
    program.write_text(f"#!{folder / 'bin' / 'python'}\nimport pytest\nraise SystemExit(pytest.main())\n")
    program.chmod(0o755)
    return Environment(folder)


def lend(names: Iterable[str], folder: Path) -> Path:
    """Fill a folder with links to distributions of this environment and all that they need."""
    folder.mkdir()
    for distribution in _closure(names):
        for part in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            # several distributions may share a folder, as those of CUDA's libraries do
            if not (folder / part).is_symlink():
                (folder / part).symlink_to(Path(str(distribution.locate_file(part))).resolve())
    return folder


def _closure(names: Iterable[str]) -> Iterator[importlib.metadata.Distribution]:
    waiting, seen = list(names), set()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        found = importlib.metadata.distribution(name)
        waiting += [one.name for one in map(Requirement, found.requires or ()) if _is_needed(one)]
        yield found


def _is_needed(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})
