"""A candidate that misbehaves costs one finding; the run goes on, and no other verdict is another."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from ckpt_conformance.report.model import Finding
from fixtures.misbehaving.candidate import PLACES, SEVERAL
from fixtures.misbehaving.outcome import is_as_told
from fixtures.misbehaving.table import LIMIT, MEMORY, MISBEHAVIOURS
from tests.integration.conftest import Ended, Shell

WHERE = dict(zip(MISBEHAVIOURS, PLACES, strict=True))
LIMITS = ["--timeout", str(LIMIT), "--memory-limit", str(MEMORY)]


@pytest.fixture(scope="module")
def done(module_shell: Callable[[str], Shell]) -> tuple[Ended, Shell]:
    """A run of the whole standard on a candidate that misbehaves in many requirements, in one worker."""
    shell = module_shell("misbehaving")
    candidate = "fixtures.misbehaving.candidate:several"
    ended = shell.run("run", candidate, "-n", "1", *LIMITS, "--report", "out")
    assert (shell.folder / "out" / "report.json").exists(), ended.err
    return ended, shell


@pytest.fixture(scope="module")
def usual(module_shell: Callable[[str], Shell]) -> dict[str, str]:
    """The verdicts of the candidate that it otherwise is."""
    shell = module_shell("well-behaved")
    shell.run("run", "reference", "--report", "out")
    return {id_: finding["verdict"] for id_, finding in shell.findings().items()}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_misbehaviour_gets_its_finding(done: tuple[Ended, Shell], name: str) -> None:
    plain = done[1].findings()[WHERE[name]]
    finding = Finding(**plain)
    assert "\n" not in finding.summary
    assert is_as_told(MISBEHAVIOURS[name], finding), (finding.verdict, finding.found)


def test_no_other_verdict_is_another(done: tuple[Ended, Shell], usual: dict[str, str]) -> None:
    misbehaved = {WHERE[name] for name in SEVERAL}
    got = {id_: finding["verdict"] for id_, finding in done[1].findings().items()}
    assert len(got) > 250
    assert {id_: verdict for id_, verdict in got.items() if id_ not in misbehaved} == {
        id_: verdict for id_, verdict in usual.items() if id_ not in misbehaved
    }


def test_it_does_not_conform_and_nothing_is_the_suites_fault(done: tuple[Ended, Shell]) -> None:
    ended, _ = done
    assert (ended.code, ended.err) == (1, "")
    assert "conformance: partial" in ended.out


def test_what_it_says_harms_no_reader(done: tuple[Ended, Shell]) -> None:
    ended, shell = done
    shown = [ended.out, *(path.read_text() for path in (shell.folder / "out").iterdir() if path.is_file())]
    for text in shown:
        assert "\x1b" not in text
        assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert "<script>alert" not in (shell.folder / "out" / "report.html").read_text()
    assert max(len(text) for text in shown) < 2_000_000


def test_the_stack_of_a_hang_leads_to_the_candidate(done: tuple[Ended, Shell]) -> None:
    trace = done[1].findings()[WHERE["hang with the interpreter's lock"]]["trace"]
    frames = [line for line in trace if "File " in line]
    assert "acts.py" in frames[0]
    assert not [line for line in trace if "_pytest" in line or "execnet" in line]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import ctypes; ctypes.string_at(0)", "importing or making it crashed the process (signal 11)"),
        ("import os; os._exit(0)", "importing or making it ended the process with exit code 0"),
        ("import os; os._exit(1)", "importing or making it ended the process with exit code 1"),
        ("import sys; sys.exit(0)", "importing dead raised SystemExit: 0"),
        ("while True: pass", "importing or making it did not end within 1 s"),
        ("kept = [b'x' * (1 << 26) for _ in range(99)]", "importing or making it grew past 1 GiB of memory"),
    ],
    ids=["segmentation fault", "os._exit(0)", "os._exit(1)", "sys.exit(0)", "hang", "memory"],
)
def test_what_it_does_at_import_is_one_line(shell: Shell, source: str, said: str) -> None:
    shell.write("dead.py", source)
    making = 1 if "while" in source else 120
    start = (
        "import sys; from ckpt_conformance.suite import options; from ckpt_conformance.cli import main;"
        f"options.MAKING = {making}; sys.exit(main(sys.argv[1:]))"
    )
    ended = shell.python("-c", start, "run", "dead:checkpoint", "--memory-limit", "1", "--report", "out")
    assert ended.code == 2
    assert ended.err.startswith(f"ckpt-conformance: error: candidate 'dead:checkpoint': {said}")
    assert ended.err.count("\n") == 1
    assert not (shell.folder / "out").exists()


VANISHING = """
import os, pathlib, sys
from torch.utils.checkpoint import checkpoint
def vanishing(fn, *args, **kwargs):
    if "reshape" in os.environ.get("PYTEST_CURRENT_TEST", ""):
        pathlib.Path(__file__).unlink()
        del sys.modules[__name__]
    if "transpose" in os.environ.get("PYTEST_CURRENT_TEST", ""):
        os.abort()
    return checkpoint(fn, *args, use_reentrant=False, **kwargs)
"""


def test_a_candidate_that_deletes_its_own_module_cannot_be_made_again(shell: Shell) -> None:
    shell.write("gone.py", VANISHING)
    chosen = [f"views/{name}-saved-by-consumer" for name in ("reshape", "transpose", "expanded-view")]
    ended = shell.run("run", "gone:vanishing", "-n", "1", "--select", *chosen, "--report", "out")
    found = shell.findings()
    assert (ended.code, ended.err) == (1, "")
    assert [found[id_]["verdict"] for id_ in chosen] == ["passed", "crashed", "crashed"]
    assert found[chosen[2]]["summary"] == "the candidate cannot be made any more"
    assert "there is no module 'gone'" in found[chosen[2]]["found"]


ONLY_ONCE = """
import os, pathlib
from torch.utils.checkpoint import checkpoint
first = pathlib.Path(__file__).with_name("first")
deaths = pathlib.Path(__file__).with_name("deaths")
if first.exists():
    deaths.open("a").write("x")
    os._exit(3)
first.touch()
def once(fn, *args, **kwargs): return checkpoint(fn, *args, use_reentrant=False, **kwargs)
"""


def test_a_candidate_that_dies_in_every_worker_is_not_made_for_every_requirement(shell: Shell) -> None:
    shell.write("onlyonce.py", ONLY_ONCE)
    ended = shell.run("run", "onlyonce:once", "-n", "1", "--select", "views", "--report", "out")
    found = shell.findings().values()
    assert (ended.code, ended.err) == (1, "")
    assert {finding["verdict"] for finding in found} == {"crashed"}
    assert len(found) > 15
    # two workers, and the child that would have written the scripts
    assert len((shell.folder / "deaths").read_text()) <= 3


def test_what_runs_in_the_users_own_pytest_may_print_as_much_as_it_likes(shell: Shell) -> None:
    shell.write(
        "loud.py", "def loud(fn, *args, **kwargs):\n    print('heard')\n    return fn(*args, **kwargs)\n"
    )
    only = ["--ckpt-candidate", "loud:loud", "--ckpt-select", "values/bfloat16", "-n", "1", "-rA"]
    ended = shell.pytest("--pyargs", "ckpt_conformance.suite", *only)
    assert ended.out.count("heard") >= 1, ended.err
    assert ended.code == os.EX_OK
