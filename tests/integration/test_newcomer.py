"""From nothing to a verdict: what a newcomer types, and gets wrong."""

from __future__ import annotations

import configparser
import json
from collections.abc import Callable

import pytest

from ckpt_conformance.cli import COMMANDS, main
from tests.integration.conftest import Shell

ADAPTERS = """
import contextlib, ctypes, os, sys, torch

class Wrapped(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def forward(self, *args): return self.module(*args)

class Discards:
    def __init__(self, group): pass
    def checkpoint(self, fn, *args): return fn(*args)
    def discard_output_and_register_recompute(self, tensor): pass

def forgets(fn, *args): fn(*args)
def lists(fn, *args): return [fn(*args)]
def takes_nothing(fn): return fn()
def asks_for_more(fn, *args, policy): return fn(*args)
def wraps(module): return Wrapped(module)
def wraps_all(module, *options): return Wrapped(module)
def wants_a_module(module, *args): return sum(each.sum() for each in module.parameters())
def without_arguments(): return contextlib.nullcontext()
def distributed(fn, *args): torch.distributed.barrier(); return fn(*args)
def on_a_gpu(fn, *args): raise RuntimeError("Found no NVIDIA driver: this needs CUDA")

def right(fn, *args): return fn(*args)
def one_input(fn, x): return fn(x)
def turned(fn, *args): return -fn(*args)
def detached(fn, *args): return fn(*args).detach()
def raises_late(fn, *args): fn(*args); raise ValueError("later")
def crashes(fn, *args): ctypes.string_at(0)
def leaves(fn, *args): os._exit(0)
def leaves_politely(fn, *args): sys.exit(0)
def recurses(fn, *args): return recurses(fn, *args)
"""

TRY = """
import json, torch, mine
from ckpt_conformance.resolve import as_candidate
from ckpt_conformance.suite.limits import Limits
from ckpt_conformance.suite.smoke import smoke
names = [name for name in vars(mine) if getattr(vars(mine)[name], "__module__", "") == "mine"]
found = {name: as_candidate(getattr(mine, name), name) for name in names}
limits = Limits(making=60.0, requirement=10.0, memory=4 << 30)
print(json.dumps({name: smoke(made, torch.device("cpu"), limits) for name, made in found.items()}))
"""
GOOD = "def checkpoint(fn, *args, **kwargs): return fn(*args, **kwargs)\n"
FEW = ["--select", "views/split-saved-by-consumer", "-n", "1"]


@pytest.fixture(scope="module")
def troubles(module_shell: Callable[[str], Shell]) -> dict[str, str | None]:
    """What the smoke step says of each adapter; in a process of its own, since it forks."""
    shell = module_shell("adapters")
    shell.write("mine.py", ADAPTERS)
    ended = shell.python("-c", TRY)
    assert ended.code == 0, ended.err
    told: dict[str, str | None] = json.loads(ended.out)
    return told


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("forgets", "it gave None in place of the region's output; likely a `return` is missing"),
        ("lists", "it gave a list in place of the region's output; likely it must return what fn returned"),
        ("takes_nothing", "but 2 were given; likely it takes no *args: the standard calls it with"),
        ("asks_for_more", "argument: 'policy'; likely it needs policy: give it in a function of your own"),
        ("wraps", "likely it is of the wrapper style: --style wrapper works"),
        (
            "wraps_all",
            "it gave a Wrapped in place of the region's output, and never called fn; likely it is of",
        ),
        ("wants_a_module", "likely it wants a module where the standard gives a function: --style wrapper"),
        ("without_arguments", "likely it is of the context style: --style context works"),
        ("distributed", "likely it wants torch.distributed: initialise it in a function"),
        ("on_a_gpu", "likely it wants a GPU: run it where there is one, with --device cuda"),
        ("Discards", "'group'; likely it is made with arguments: name a function without any that makes one"),
    ],
)
def test_a_wrong_adapter_is_told_with_what_is_likely_wrong(
    troubles: dict[str, str | None], name: str, said: str
) -> None:
    trouble = troubles[name]
    assert trouble is not None
    assert said in trouble
    assert trouble.startswith("cannot be called in the ")
    assert "\n" not in trouble


@pytest.mark.parametrize(
    "name",
    ["right", "one_input", "turned", "detached", "raises_late", "crashes", "leaves", "leaves_politely",
     "recurses"],
)  # fmt: skip
def test_what_is_for_the_standard_to_judge_is_let_through(troubles: dict[str, str | None], name: str) -> None:
    assert troubles[name] is None


def test_a_wrong_adapter_costs_one_line_and_leaves_nothing(shell: Shell) -> None:
    shell.write("mine.py", ADAPTERS)
    ended = shell.run("run", "mine:forgets", "--report", "out")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(
        "ckpt-conformance: error: candidate 'mine:forgets' cannot be called in the function style, "
        "checkpoint(fn, *args): it gave None"
    )
    assert ended.err.count("\n") == 1
    assert not (shell.folder / "out").exists()


def test_init_writes_a_candidate_that_runs_and_a_tox_environment(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    ended = shell.run("init", "mine:checkpoint")
    assert ended.code == 0, ended.err
    assert "\n  ckpt-conformance run conformance_candidate:CANDIDATE\n" in ended.out
    text = (shell.folder / "conformance_candidate.py").read_text()
    assert "from mine import checkpoint\n" in text
    assert '# "kwargs",  # the region takes keyword arguments' in text
    tox = configparser.ConfigParser()
    tox.read(shell.folder / "tox-conformance.ini")
    assert "{posargs:conformance_candidate:CANDIDATE}" in tox["testenv:conformance"]["commands"]
    assert tox["testenv:conformance"]["skip_install"] == "true"
    ran = shell.run("run", "conformance_candidate:CANDIDATE", *FEW)
    assert ran.code == 0, ran.err
    assert ran.out.count("mine (function style)") == 1


def test_init_never_overwrites(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    shell.write("tox-conformance.ini", "mine")
    ended = shell.run("init", "mine:checkpoint")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "ckpt-conformance: error: tox-conformance.ini is there already and is left as it is; "
        "name another --folder\n"
    )
    assert sorted(path.name for path in shell.folder.iterdir()) == ["mine.py", "tox-conformance.ini"]


def test_init_says_what_to_mend_where_the_function_cannot_be_called(shell: Shell) -> None:
    shell.write("mine.py", ADAPTERS)
    (shell.folder / "sub").mkdir()
    shell.write("sub/pyproject.toml", "")
    ended = shell.run("init", "mine:Discards", "--folder", "sub")
    assert ended.code == 0, ended.err
    assert "\nmend this first, in conformance_candidate.py: candidate 'mine:Discards' cannot be" in ended.out
    assert (
        "Candidate.from_discarding(\n    Discards,"
        in (shell.folder / "sub/conformance_candidate.py").read_text()
    )
    assert "skip_install" not in (shell.folder / "sub/tox-conformance.ini").read_text()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("reference", "name a function of your own as pkg.module:attribute, not 'reference'"),
        ("mine:chekpoint", "mine has no 'chekpoint'; did you mean checkpoint?"),
        ("mnie:checkpoint", "nor installed; did you mean mine?"),
        ("torch.utils.chekpoint:checkpoint", "; did you mean torch.utils.checkpoint"),
        ("made:CANDIDATE", "made:CANDIDATE is a candidate already: ckpt-conformance run made:CANDIDATE"),
    ],
)
def test_init_needs_a_function(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target: str, said: str
) -> None:
    monkeypatch.chdir(shell.folder)
    monkeypatch.syspath_prepend(str(shell.folder))
    shell.write("mine.py", GOOD)
    shell.write(
        "made.py",
        "import mine\nfrom ckpt_conformance import Candidate\n"
        "CANDIDATE = Candidate.from_function(mine.checkpoint, name='made')\n",
    )
    assert main(["init", target]) == 2
    assert said in capsys.readouterr().err
    assert not (shell.folder / "conformance_candidate.py").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "there is no command 'rnu'; did you mean run?"),
        (["walk"], "there is no command 'walk'; see `ckpt-conformance --help`"),
        (["report", "old.jsn"], "old.jsn cannot be read: No such file or directory; did you mean old.json?"),
        (
            ["run", "--expect", "conformanse.toml"],
            "No such file or directory; did you mean conformance.toml?",
        ),
        (["run", "--compare", "old.jsn"], "No such file or directory; did you mean old.json?"),
        (["run", "--compare", "old.json"], "old.json is no report of a known format: "),
    ],
)
def test_what_is_misspelt_is_told_with_what_was_meant(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(shell.folder)
    shell.write("old.json", "{}")
    shell.write("conformance.toml", "")
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert (out, err.count("\n")) == ("", 1)


def test_a_comparison_with_another_candidate_is_refused_before_the_run(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    assert shell.run("run", "mine:checkpoint", *FEW, "--report", "out").code == 0
    ended = shell.run("run", "reference", *FEW, "--compare", "out")
    assert (ended.code, ended.out) == (2, "")
    assert "the two reports differ in their candidate (mine:checkpoint and reference)" in ended.err


def test_a_comparison_ends_with_1_for_new_failures_alone(shell: Shell) -> None:
    shell.write("mine.py", GOOD)
    assert shell.run("run", "mine:checkpoint", *FEW, "--report", "good").code == 0
    shell.write("mine.py", GOOD.replace("return ", "return -"))
    worse = shell.run("run", "mine:checkpoint", *FEW, "--report", "bad", "--compare", "good")
    assert (worse.code, worse.out.splitlines()[-1][:24]) == (1, "1 NEW, 0 FIXED, 0 SAME a")
    same = shell.run("run", "mine:checkpoint", *FEW, "--compare", "bad/report.json")
    assert (same.code, same.out.splitlines()[-1][:24]) == (0, "0 NEW, 0 FIXED, 1 SAME a")
    assert (shell.folder / "bad/summary.md").read_text().startswith("## mine&#58;checkpoint: 1 NEW, 0 FIXED")


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_fits_a_screen(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0
    # the prompt takes the last of the 24 lines
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
