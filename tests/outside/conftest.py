"""Our wheel, built once, and an environment that it is installed into."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.outside.environment import ROOT, Environment, build_wheel, lend, make_environment

LENT = ("torch", "pytest", "pytest-xdist", "pytest-timeout", "pytest-randomly", "objgraph", "packaging",
        "transformers", "setuptools", "pip")  # fmt: skip


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this project."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def lent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages that other people's environments have."""
    return lend(LENT, tmp_path_factory.mktemp("packages") / "lent")


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory, lent: Path, wheel: Path) -> Environment:
    """An environment with the wheel installed."""
    made = make_environment(tmp_path_factory.mktemp("outside") / "venv", lent)
    made.install(str(wheel))
    return made


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a copy of another project, far from this one."""

    def copied(name: str) -> Path:
        place = tmp_path_factory.mktemp("hosts") / name
        shutil.copytree(
            ROOT / "fixtures" / "hosts" / name, place, ignore=shutil.ignore_patterns("__pycache__")
        )
        return place

    return copied


@pytest.fixture
def library(host: Callable[[str], Path]) -> Path:
    """A copy of the library of which our documents speak."""
    return host("library")
