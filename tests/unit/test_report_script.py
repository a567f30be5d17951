"""Stand-alone scripts: they run without this package and come to the same verdict."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.torch_checkpoint import NONREENTRANT, REENTRANT
from ckpt_conformance.report.bundle import Bundle, NoScriptError
from ckpt_conformance.report.explain import find
from ckpt_conformance.report.expression import expression
from ckpt_conformance.report.scopes import global_names
from ckpt_conformance.report.script import script_for
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import requirements
from ckpt_conformance.suite.judge import judge

STANDARD = list(requirements())
WRONG_SUM = "values/gradients-of-inputs-and-parameters"


def run_script(text: str, folder) -> subprocess.CompletedProcess[str]:
    """Run it where neither this package nor the working directory can be imported."""
    script = folder / "script.py"
    blocker = "import sys; sys.modules['ckpt_conformance'] = sys.modules['fixtures'] = None\n"
    script.write_text(text.replace("\nimport sys\n", f"\n{blocker}", 1), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-I", str(script)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
        check=False,
    )


CASES = [
    ("values/gradients-of-inputs-and-parameters", NONREENTRANT),
    ("views/split-saved-by-consumer", REENTRANT),
    ("rng/dropout-mask", NONREENTRANT),
    ("values/unused-output", REENTRANT),
]


@pytest.mark.parametrize(("id_", "candidate"), CASES, ids=[f"{id_}-{one.name}" for id_, one in CASES])
def test_a_script_comes_to_the_same_verdict(tmp_path, id_, candidate):
    requirement = find(id_, STANDARD)
    finding = judge(requirement, candidate, Lab())
    ended = run_script(script_for(requirement, candidate), tmp_path)
    passed = finding.verdict == "passed"
    assert (ended.returncode, ended.stderr) == (0 if passed else 1, "")
    assert ended.stdout.endswith("not reproduced: the requirement holds\n" if passed else "reproduced\n")
    assert passed or f"found:    {finding.found}" in ended.stdout


def test_a_failure_shows_with_what_was_expected_and_found(tmp_path):
    candidate = Candidate.from_function(torch.nn.functional.relu, name="relu")
    ended = run_script(script_for(find(WRONG_SUM, STANDARD), candidate), tmp_path)
    assert ended.returncode == 1
    assert ended.stdout.startswith(
        "the candidate raised\nexpected: no error\nfound:    RuntimeError: Boolean value"
    )
    assert ended.stdout.endswith("reproduced\n")


def test_the_script_says_what_it_is_and_holds_only_what_it_needs():
    text = script_for(find(WRONG_SUM, STANDARD), NONREENTRANT)
    assert text.startswith(f'"""Reproduces {WRONG_SUM} on torch-nonreentrant.\n\n')
    assert "@requirement" not in text
    assert "import ckpt_conformance" not in text
    assert "from ckpt_conformance" not in text
    assert "REENTRANT = " in text
    assert "pass_through" not in text


def test_a_catalog_entry_with_other_expectations_is_still_found():
    text = script_for(find(WRONG_SUM, STANDARD), replace(NONREENTRANT, expected_failures={}))
    assert "CANDIDATE = NONREENTRANT\n" in text


def test_a_candidate_made_at_run_time_is_written_out():
    candidate = Candidate.from_function(partial(checkpoint, use_reentrant=True, debug=False), name="mine")
    text = script_for(find(WRONG_SUM, STANDARD), candidate)
    assert (
        "CANDIDATE = Candidate(\n    name='mine',\n    style=Style.FUNCTION,\n"
        "    target=partial(checkpoint, use_reentrant=True, debug=False),\n)\n"
    ) in text


def test_a_lambda_gives_no_script_unless_the_user_named_it():
    candidate = Candidate.from_function(lambda fn, *args: fn(*args), name="mine")
    requirement = find(WRONG_SUM, STANDARD)
    with pytest.raises(NoScriptError, match="<lambda> cannot be imported"):
        script_for(requirement, candidate)
    text = script_for(requirement, candidate, target="mylib.remat:checkpoint")
    assert "from mylib.remat import checkpoint\n" in text
    assert "    target=checkpoint,\n" in text


def test_a_named_candidate_is_imported_as_it_is(monkeypatch):
    candidate = Candidate.from_function(lambda fn, *args: fn(*args), name="mine")
    monkeypatch.setitem(sys.modules, "mylib_remat", SimpleNamespace(CANDIDATE=candidate))
    text = script_for(find(WRONG_SUM, STANDARD), candidate, target="mylib_remat:CANDIDATE")
    assert "from mylib_remat import CANDIDATE as CANDIDATE_2\n" in text
    assert "\nCANDIDATE = CANDIDATE_2\n" in text


def test_names_that_two_modules_use_for_different_things_are_kept_apart(tmp_path, monkeypatch):
    package = tmp_path / "fixtures_like"
    package.mkdir()
    (package / "one.py").write_text("def helper():\n    return 1\n\n\ndef first():\n    return helper()\n")
    (package / "two.py").write_text(
        textwrap.dedent('''
        from fixtures_like.one import first
        from math import floor as helper_2

        LIMIT = 2.5
        """The limit."""


        def helper(helper_2=helper_2):
            return helper_2(LIMIT)


        def unused():
            return helper()


        def both(first=first):
            helper_value = [helper for helper in (1,)]
            return first() + helper() + helper_value[0]
        ''')
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("ckpt_conformance.report.bundle._OURS", ("fixtures_like",))
    bundle = Bundle()
    bundle.add("fixtures_like.two", "both")
    text = f"{bundle.imports()}\n\n{bundle.definitions()}\n"
    space: dict[str, object] = {}
    exec(text, space)
    assert space["both"]() == 1 + 2 + 1
    assert "unused" not in text
    assert text.index("def first") < text.index("def both")
    assert '"""The limit."""' in text


VALUES = [
    (None, "None"),
    (-1.5, "-1.5"),
    ("a'b", '"a\'b"'),
    ([1, (2,), {"k": ()}], "[1, (2,), {'k': ()}]"),
    (torch.float32, "torch.float32"),
    (torch.device("cuda", 1), "torch.device('cuda:1')"),
    (torch, "importlib.import_module('torch')"),
    (partial(checkpoint, use_reentrant=False), "partial(checkpoint, use_reentrant=False)"),
    (torch.nn.Module.named_parameters, "Module.named_parameters"),
]


@pytest.mark.parametrize(("value", "source"), VALUES, ids=[case[1] for case in VALUES])
def test_the_source_of_a_value(value, source):
    assert expression(Bundle(), value) == source


@pytest.mark.parametrize("value", [object(), float("inf"), lambda: 0, partial(lambda: 0)], ids=range(4))
def test_what_exists_only_at_run_time_has_no_source(value):
    with pytest.raises(NoScriptError):
        expression(Bundle(), value)


SCOPES = [
    ("def f(a): return a + b", {"b"}),
    ("def f(a=c): return lambda d: (a, d, e)", {"c", "e"}),
    ("class K(B):\n    x: T = y\n    def m(self): return x", {"B", "T", "y", "x"}),
    ("z = [i for i in w]", {"z", "w"}),
    ("def f():\n    try: g()\n    except E as e: return e", {"g", "E"}),
    ("def f():\n    from m import n\n    return n, o", {"o"}),
    ("def f():\n    global q\n    q = r", {"q", "r"}),
    ("def f(x):\n    match x:\n        case P(v) as w: return v, w", {"P"}),
]


@pytest.mark.parametrize(("source", "names"), SCOPES, ids=range(len(SCOPES)))
def test_global_names_leave_locals_out(source, names):
    assert {name.id for name in global_names(ast.parse(source).body[0])} == names
