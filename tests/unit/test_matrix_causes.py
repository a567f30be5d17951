"""The table of causes, and the scripts that show them."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ckpt_conformance import catalog
from ckpt_conformance.matrix.causes import KINDS, cause_of, causes
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.standard.registry import requirements
from tests.unit.matrix_samples import finding

SCRIPTS = Path(__file__).parents[2] / "docs" / "findings"
SHOWN = sorted(path.name for path in SCRIPTS.glob("[a-z]*.py"))


def packages(script: str) -> set[str]:
    text = (SCRIPTS / script).read_text()
    found = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)) - set(sys.stdlib_module_names)
    return {"megatron" if name == "_megatron" else name for name in found}


def test_the_worst_causes_come_first() -> None:
    ranks = [KINDS.index(cause.kind) for cause in causes()]
    assert ranks == sorted(ranks)


def test_every_cause_has_a_name_of_its_own() -> None:
    names = [cause.id for cause in causes()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_a_cause_is_about_candidates_and_requirements_that_exist(cause) -> None:
    names, ids = [entry.name for entry in catalog.entries()], [made.id for made in requirements()]
    for place in cause.places:
        assert all(fnmatch.filter(names, pattern) for pattern in place.candidates)
        assert all(fnmatch.filter(ids, pattern) for pattern in place.requirements)


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_a_cause_is_shown_by_scripts_that_exist(cause) -> None:
    assert cause.scripts
    assert set(cause.scripts) <= set(SHOWN)


def test_a_failure_has_the_cause_that_its_evidence_fits() -> None:
    known = finding("engine/second-backward", Verdict.FAILED, found="'_GeneratorContextManager' object")
    other = finding("engine/second-backward", Verdict.FAILED, found="something else")
    cause = cause_of("torch-composable", known)
    assert cause is not None
    assert cause.id == "composable-second-backward"
    assert cause_of("torch-composable", other) is None


def test_what_passed_has_no_cause() -> None:
    assert cause_of("deepspeed", finding("values/complex", Verdict.PASSED)) is None


@pytest.mark.parametrize("script", [name for name in SHOWN if packages(name) == {"torch"}])
@pytest.mark.filterwarnings("ignore")
def test_a_script_of_torch_alone_shows_its_fault(script: str) -> None:
    """In this process: importing torch again for each would take longer than all else."""
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    assert ended.value.code == 1


@pytest.mark.parametrize("script", [name for name in SHOWN if packages(name) != {"torch"}])
def test_a_script_shows_the_fault_of_its_package(script: str) -> None:
    missing = sorted(name for name in packages(script) if importlib.util.find_spec(name) is None)
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    done = subprocess.run(
        [sys.executable, script], cwd=SCRIPTS, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
