"""The scripts beside docs/fuzz.md still show what the page says."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "fuzz"
SCRIPTS = sorted(FOLDER.glob("*.py"))

_MODULES = {"unsloth": "unsloth_zoo", "pfn": "pytorch_pfn_extras"}
"""What a package is imported as, where that is not how its scripts' names begin."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_is_short_alone_and_named_on_the_page(script):
    text = script.read_text()
    assert text.count("\n") <= 60
    assert "ckpt_conformance" not in text
    assert f"fuzz/{script.name}" in FOLDER.with_suffix(".md").read_text()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_shows_its_difference(script):
    package = script.stem.partition("_")[0]
    if importlib.util.find_spec(_MODULES.get(package, package)) is None:
        pytest.skip(f"{package} is not installed")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (1, "reproduced")
