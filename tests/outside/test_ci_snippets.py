"""The snippets of docs/ci.md, taken from there and run in a library of somebody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.documents import block
from tests.outside.environment import TARGET, Ended, Environment

CI = "docs/ci.md"
TURN = (
    "torch.autograd.backward(output, gradients)",
    "torch.autograd.backward(output, [-g for g in gradients])",
)


def git(environment: Environment, cwd: Path, *arguments: str) -> None:
    who = [
        "-c",
        "user.name=somebody",
        "-c",
        "user.email=somebody@example.org",
        "-c",
        "init.defaultBranch=main",
    ]
    ended = environment.run("git", *who, *arguments, cwd=cwd)
    assert ended.code == 0, ended.said


def repository(environment: Environment, library: Path, *, main_is_wrong: bool) -> None:
    """A repository with `main` and, checked out, `topic`, of which one turns the gradients' signs."""
    remat = library / "mylib" / "remat.py"
    right = remat.read_text()
    wrong = right.replace(*TURN)
    assert wrong != right
    remat.write_text(wrong if main_is_wrong else right)
    git(environment, library, "init", "-q")
    git(environment, library, "add", ".")
    git(environment, library, "commit", "-q", "-m", "main")
    git(environment, library, "remote", "add", "origin", ".")
    git(environment, library, "fetch", "-q", "origin")
    git(environment, library, "checkout", "-q", "-b", "topic")
    remat.write_text(right if main_is_wrong else wrong)


def job(heading: str) -> dict[str, Any]:
    """The one job of a workflow."""
    (found,) = yaml.safe_load(block(CI, heading, "yaml"))["jobs"].values()
    return found


def steps_run(environment: Environment, heading: str, cwd: Path, summary: Path) -> Iterator[Ended]:
    """Run the steps of a workflow, after a failure only those that always run."""
    failed = False
    for step in job(heading)["steps"]:
        assert ("run" in step) != ("uses" in step)
        if "run" in step and (not failed or step.get("if") == "always()"):
            ended = environment.bash(
                step["run"], cwd, GITHUB_STEP_SUMMARY=str(summary), GITHUB_BASE_REF="main"
            )
            failed = failed or ended.code != 0
            yield ended


def test_the_workflow_leaves_what_it_uploads(environment: Environment, library: Path, tmp_path: Path):
    remat = library / "mylib" / "remat.py"
    remat.write_text(remat.read_text().replace(*TURN))
    summary = tmp_path / "summary.md"
    codes = [ended.code for ended in steps_run(environment, "GitHub Actions", library, summary)]
    assert codes == [0, 1, 0]
    assert summary.read_text().startswith("## mylib")
    uploads = [step["with"] for step in job("GitHub Actions")["steps"] if "upload" in step.get("uses", "")]
    assert [(library / (one.get("sarif_file") or one["path"])).exists() for one in uploads] == [True, True]


@pytest.mark.parametrize("main_is_wrong", [False, True])
def test_before_a_merge_only_new_failures_count(
    environment: Environment, library: Path, tmp_path: Path, main_is_wrong: bool
):
    repository(environment, library, main_is_wrong=main_is_wrong)
    summary = tmp_path / "summary.md"
    heading = "Before a merge: only what this branch breaks"
    base, this, _ = steps_run(environment, heading, library, summary)
    assert base.code == 0, base.said
    label = "FIXED" if main_is_wrong else "NEW"
    assert this.code == (0 if main_is_wrong else 1), this.said
    assert f"{label:<5}  views/reshape-saved-by-consumer: " in this.said
    assert f"2 {label}, " in summary.read_text()


def test_the_same_on_ones_own_machine(environment: Environment, library: Path):
    repository(environment, library, main_is_wrong=True)
    git(environment, library, "commit", "-q", "-a", "-m", "mended")
    ended = environment.bash(block(CI, "Before a merge: only what this branch breaks", "bash"), library)
    assert ended.code == 0, ended.said
    assert "0 NEW, 2 FIXED, 0 SAME against " in ended.said


SUITE = ("--pyargs", "ckpt_conformance.suite")
SELECT = "ckpt_select = rng/explicit-generator views/split-saved-by-consumer"


@pytest.fixture
def settings(library: Path) -> str:
    """The settings and the files that they name; a few requirements."""
    (library / "pyproject.toml").unlink()
    (library / "conformance.toml").write_text(block(CI, "Expectations", "toml"))
    (library / "leaks.toml").write_text(block(CI, "pytest.ini", "toml"))
    return f"{block(CI, 'pytest.ini', 'ini')}{SELECT}\n"


def test_the_settings_of_pytest_ini(environment: Environment, library: Path, settings: str):
    (library / "pytest.ini").write_text(settings)
    ended = environment.pytest(*SUITE, "-W", "error", cwd=library)
    assert ended.code == 0, ended.said
    assert "1 passed, 1 xfailed" in ended.said


def test_the_hook_gives_the_candidate(environment: Environment, library: Path, settings: str):
    (library / "pytest.ini").write_text(settings.replace(f"ckpt_candidate = {TARGET}\n", ""))
    (library / "conftest.py").write_text(block(CI, "pytest.ini", "python"))
    with (library / "mylib" / "remat.py").open("a") as file:
        file.write("\nfrom ckpt_conformance import Candidate\n")
        file.write("CANDIDATE = Candidate.from_function(checkpoint, name='mylib')\n")
    ended = environment.pytest(*SUITE, "-W", "error", cwd=library)
    assert ended.code == 0, ended.said
    assert "1 passed, 1 xfailed" in ended.said
    assert "conformance of mylib" in ended.said
