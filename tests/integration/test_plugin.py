"""The three ways to plug in, in other people's pytest."""

from __future__ import annotations

from tests.integration.conftest import Shell

ONE = "rng/dropout-mask"
CANDIDATES = """
from ckpt_conformance import Candidate, Expected
from torch.utils.checkpoint import checkpoint
def turned(fn, *args): return checkpoint(lambda *a: -fn(*a), *args, use_reentrant=False)
def right(fn, *args): return checkpoint(fn, *args, use_reentrant=False)
RIGHT = Candidate.from_function(right, name="right")
TURNED = Candidate.from_function(turned, name="turned",
                                 expected_failures={"rng/dropout-mask": Expected("turns signs")})
WRONG = Candidate.from_function(turned, name="wrong")
"""


def test_the_plugin_alone_imports_neither_torch_nor_the_standard(shell: Shell) -> None:
    shell.write("test_nothing.py", "def test_nothing(): pass\n")
    code = (
        "import sys, pytest\n"
        "code = pytest.main(['-p', 'ckpt_conformance.plugin', '-q', 'test_nothing.py'])\n"
        "heavy = [name for name in ('torch', 'ckpt_conformance.standard', 'ckpt_conformance.suite')"
        " if name in sys.modules]\n"
        "sys.exit(repr(heavy) if heavy else int(code))\n"
    )
    ended = shell.python("-c", code, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert ended.code == 0, ended.out + ended.err


def test_the_suite_is_collected_for_a_candidate(shell: Shell) -> None:
    shell.write("mine.py", CANDIDATES)
    arguments = ["--pyargs", "ckpt_conformance.suite", "--ckpt-select", ONE, "-rA"]
    right = shell.pytest(*arguments, "--ckpt-candidate", "mine:RIGHT", "--ckpt-report", "out")
    assert right.code == 0, right.out + right.err
    assert "1 passed" in right.out
    assert "the standard has" in right.out
    assert shell.findings()[ONE]["verdict"] == "passed"
    wrong = shell.pytest(*arguments, "--ckpt-candidate", "mine:WRONG", "-n", "1")
    assert wrong.code == 1
    assert f"{ONE} failed: " in wrong.out
    assert "conformance: none" in wrong.out


def test_a_conftest_gives_the_candidates(shell: Shell) -> None:
    shell.write("mine.py", CANDIDATES)
    shell.write(
        "conftest.py",
        "import mine\ndef pytest_ckpt_candidates(config): return [mine.RIGHT, mine.TURNED]\n",
    )
    ended = shell.pytest("--pyargs", "ckpt_conformance.suite", "--ckpt-select", ONE, "-c", "conftest.ini")
    assert ended.code != 0
    shell.write("pytest.ini", f"[pytest]\nckpt_select = {ONE}\n")
    ended = shell.pytest("--confcutdir=.", "--rootdir=.", ".", "--pyargs", "ckpt_conformance.suite")
    assert ended.code == 0, ended.out + ended.err
    assert "1 passed, 1 xfailed" in ended.out


def test_parametrize_gives_a_test_for_each_requirement(shell: Shell) -> None:
    shell.write("mine.py", CANDIDATES)
    shell.write(
        "test_mine.py",
        "import mine\n"
        "from ckpt_conformance import parametrize_with_checks\n"
        f"@parametrize_with_checks([mine.RIGHT, mine.TURNED, mine.WRONG], select=['{ONE}'])\n"
        "def test_conformance(candidate, check):\n"
        "    check(candidate)\n",
    )
    ended = shell.pytest("-W", "error", "-rA", "test_mine.py")
    assert "1 failed, 1 passed, 1 xfailed" in ended.out, ended.out
    assert f"test_conformance[wrong-{ONE}]" in ended.out


def test_an_unknown_candidate_is_a_usage_error(shell: Shell) -> None:
    ended = shell.pytest("--pyargs", "ckpt_conformance.suite", "--ckpt-candidate", "nothing-like-it")
    assert ended.code == 4
    assert "no candidate is called 'nothing-like-it'" in ended.err
    assert "Traceback" not in ended.err


def test_without_a_candidate_the_suite_is_skipped(shell: Shell) -> None:
    ended = shell.pytest("--pyargs", "ckpt_conformance.suite")
    assert ended.code == 0
    assert "1 skipped" in ended.out


def test_a_hang_in_ones_own_pytest_is_ended_by_pytest_timeout(shell: Shell) -> None:
    shell.write("mine.py", "import time\ndef slow(fn, *args):\n    time.sleep(60)\n    return fn(*args)\n")
    arguments = ["--pyargs", "ckpt_conformance.suite", "--ckpt-select", ONE, "--ckpt-candidate", "mine:slow"]
    ended = shell.pytest("-p", "pytest_timeout", "--timeout", "15", *arguments)
    assert ended.code == 1
    assert f"{ONE} hung: the time limit passed" in ended.out
