from pathlib import Path

import pytest

import ckpt_conformance

pytest_plugins = ["pytester"]

STEPS = """
import pytest
import torch

KEPT = []

def keep():
    KEPT.append(torch.ones(16))

def test_fixture_clean(ckpt_leaks):
    with ckpt_leaks(steps=5) as steps:
        for _ in steps:
            torch.ones(16, requires_grad=True).exp().sum().backward()

def test_fixture_leaking(ckpt_leaks):
    with ckpt_leaks(steps=5) as steps:
        for _ in steps:
            keep()

@pytest.mark.ckpt_leaks(steps=5)
def test_marker_clean(tmp_path):
    assert tmp_path.exists()

@pytest.mark.ckpt_leaks(steps=5)
def test_marker_leaking():
    keep()
"""


@pytest.fixture
def project(pytester, monkeypatch):
    # the plugin is loaded by its name, whether the package is installed or not
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(ckpt_conformance.__file__).parents[1]))
    pytester.makepyfile(test_steps=STEPS)
    return pytester


def run(project, *options):
    return project.runpytest_subprocess("-p", "ckpt_conformance.plugin", "-p", "no:cacheprovider", *options)


def test_fixture_and_marker_fail_the_test_that_leaks_and_name_the_holder(project):
    result = run(project)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*LeakError: every step keeps 64 bytes more: held, test_steps.KEPT*"])


def test_a_leak_of_the_projects_baseline_passes(project):
    text = run(project, "-k", "marker_leaking").stdout.str()
    found = text.partition('fingerprint = "')[2][:12]
    project.path.joinpath("known.toml").write_text(f'[[leak]]\nfingerprint = "{found}"\nreason = "seen"\n')
    project.makeini("[pytest]\nckpt_leaks_baseline = known.toml\n")
    run(project).assert_outcomes(passed=4)
