"""The tox environments that we offer, run by tox in a library of somebody else's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ckpt_conformance.standard.registry import requirements
from tests.documents import block
from tests.outside.environment import FEW, TARGET, Ended, Environment


def run_tox(environment: Environment, lent: Path, wheel: Path, library: Path, *arguments: str) -> Ended:
    """Run tox with torch and the others lent; pip gets our wheel from a folder, and fetches nothing."""
    # tox runs pip in isolated mode, in which it would not see what is lent
    lend = [f"set_env=PYTHONPATH={lent}", "install_command=python -m pip install {opts} {packages}"]
    options = [f"{section}.{one}" for section in ("testenv", "pkgenv") for one in lend]
    # pip would fetch what an sdist is built with
    options.append("testenv.package=wheel")
    command = [sys.executable, "-m", "tox", "run", *(part for option in options for part in ("-x", option))]
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheel.parent)}
    return environment.run(*command, *arguments, cwd=library, **pip)


def test_the_snippet_verifies_the_library(
    environment: Environment, lent: Path, wheel: Path, library: Path
) -> None:
    tox_ini = library / "tox.ini"
    tox_ini.write_text(f"{tox_ini.read_text()}\n{block('docs/ci.md', 'tox', 'ini')}")
    ended = run_tox(environment, lent, wheel, library, "-e", "conformance")
    assert ended.code == 1, ended.said
    assert f"{TARGET} (function style)" in ended.said
    assert "FAILED retention/" in ended.said
    report = json.loads((library / ".tox/conformance/tmp/report/report.json").read_text())
    assert report["counts"]["passed"] > 100
    assert len(report["findings"]) == sum(not made.full for made in requirements())


def test_what_init_writes_verifies_the_library(
    environment: Environment, lent: Path, wheel: Path, library: Path
) -> None:
    started = environment.run("ckpt-conformance", "init", TARGET, cwd=library)
    assert started.code == 0, started.said
    chosen = ["--", "conformance_candidate:CANDIDATE", *FEW.split()]
    ended = run_tox(environment, lent, wheel, library, "-c", "tox-conformance.ini", *chosen)
    assert ended.code == 0, ended.said
    assert "mylib (function style)" in ended.said
    assert "2 passed" in ended.said
