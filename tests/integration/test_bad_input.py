"""What the user has to mend is one line and exit code 2: no traceback, nothing half-written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckpt_conformance.cli import main

MODULE = "import torch\nnumber = 3\ndef checkpoint(fn, *args): return fn(*args)\n"


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    (tmp_path / "broken.py").write_text("def checkpoint(:\n")
    (tmp_path / "raising.py").write_text("import torch\nraise ValueError('no\\nluck')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["torch-reentrent"], "no candidate is called 'torch-reentrent'; did you mean torch-reentrant"),
        ([""], "no candidate is called ''"),
        (["nowhere.to.be:found"], "there is no module 'nowhere'"),
        (["broken:checkpoint"], "importing broken raised SyntaxError: invalid syntax"),
        (["raising:checkpoint"], "importing raising raised ValueError: no luck"),
        (["mine:number"], "candidate 'mine:number' is of type int, which cannot be called"),
        (["mine:chekpoint"], "mine has no 'chekpoint'; did you mean checkpoint?"),
        (["mine:"], "write it as pkg.module:attribute"),
        (
            ["mine:checkpoint", "--select", "vews"],
            "no family or requirement is called 'vews'; did you mean views",
        ),
        (["mine:checkpoint", "--expect", "nothing.toml"], "nothing.toml cannot be read: No such file"),
        (["mine:checkpoint", "--report", "mine.py"], "cannot be written"),
        (["mine:checkpoint", "--report", "."], "holds something that no run wrote"),
        (["mine:checkpoint", "--device", "abacus"], "there is no device 'abacus'; name auto, cpu or cuda"),
        (["mine:checkpoint", "--device", "cuda:99"], "there is no device 'cuda:99' here; name auto or cpu"),
    ],
)
def test_one_line_says_what_to_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    assert main(["run", *arguments]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert err.startswith("ckpt-conformance: error: ")
    assert (out, err.count("\n")) == ("", 1)
    assert [
        name for name in sorted(path.name for path in tmp_path.iterdir()) if name != "__pycache__"
    ] == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[expected]\n", "is no TOML file"),
        ("[views]\n", "unknown entry 'views'"),
        ("expected = 3\n", "'expected' is no array of tables"),
        ('[[expected]]\nreason = "r"\n', "[[expected]] number 1 lacks an id"),
        (
            '[[expected]]\nid = "rng/dropout-maks"\nreason = "r"\n',
            "no requirement 'rng/dropout-maks'; did you mean rng/dropout-mask",
        ),
        ('[[expected]]\nid = "rng/dropout-mask"\n', "rng/dropout-mask lacks a reason"),
        ('[[expected]]\nid = "rng/dropout-mask"\nreason = "r"\nwhy = "w"\n', "unknown key 'why'"),
        ('[[expected]]\nid = "rng/dropout-mask"\nreason = "r"\nkind = "odd"\n', "kind 'odd' is none of bug,"),
        ('[[expected]]\nid = "rng/dropout-mask"\nreason = "r"\nwhen = "old"\n', "is no version specifier"),
        ('[[expected]]\nid = "rng/dropout-mask"\nreason = 3\n', "reason is no text"),
        ('[[expected]]\nid = "rng/dropout-mask"\nreason = "r"\n' * 2, "rng/dropout-mask is there twice"),
    ],
)
def test_expectations_are_checked_before_anything_runs(
    text: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "conformance.toml").write_text(text)
    assert main(["run", "mine:checkpoint", "--expect", "conformance.toml", "--report", "out"]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [["run", "-n", "0"], ["run", "--timeout", "soon"], ["--walk"], []])
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == (2 if arguments else 0)


def test_explaining_an_unknown_requirement_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "rng/dropout-msk"]) == 2
    assert "did you mean rng/dropout-mask" in capsys.readouterr().err
