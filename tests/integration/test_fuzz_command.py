"""`ckpt-conformance fuzz`: exit codes, scripts and the corpus."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from ckpt_conformance.cli import main
from ckpt_conformance.fuzz.program import Program

_BAD = '''
def checkpoint(fn, *args, **kwargs):
    """Adds something to the result."""
    output = fn(*args, **kwargs)
    return output * 1.5 if hasattr(output, "mul") and output.is_floating_point() else output
'''


@pytest.fixture
def bad(tmp_path, monkeypatch):
    (tmp_path / "scales_output.py").write_text(_BAD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "scales_output:checkpoint"


def test_the_reference_ends_with_0(capsys):
    assert main(["fuzz", "reference", "--examples", "40", "--seed", "5"]) == 0
    assert "40 programs in" in capsys.readouterr().out


def test_a_difference_ends_with_1_and_its_script_reproduces_it(bad, tmp_path, capsys):
    corpus = tmp_path / "corpus"
    assert main(["fuzz", bad, "--examples", "40", "--seconds", "60", "--corpus", str(corpus)]) == 1
    assert "a result differs" in capsys.readouterr().out
    script = next(iter(sorted(corpus.glob("*.py"))))
    lines = script.read_text().splitlines()
    assert len(lines) <= 60
    assert not any("ckpt_conformance" in line for line in lines)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path, check=False,
                         env={"PYTHONPATH": str(tmp_path)})  # fmt: skip
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (1, "reproduced"), ran.stderr


def test_a_saved_corpus_is_replayed(bad, tmp_path, capsys):
    arguments = ["fuzz", bad, "--examples", "5", "--seconds", "60", "--corpus", str(tmp_path)]
    assert main(arguments) == 1
    saved = (tmp_path / "corpus.jsonl").read_text().count("\n")
    assert main(arguments) == 1
    assert f"{saved} saved programs: {saved} programs in" in capsys.readouterr().out


def test_a_script_keeps_its_name_and_what_was_edited_in_it(bad, tmp_path, capsys):
    arguments = ["fuzz", bad, "--examples", "5", "--seconds", "60", "--corpus", str(tmp_path / "found")]
    assert main(arguments) == 1
    assert "not of this hunt" not in capsys.readouterr().out
    scripts = sorted((tmp_path / "found").glob("*.py"))
    scripts[0].write_text("# edited\n")
    (tmp_path / "found" / "01-a-gradient-differs.py").touch()
    assert main(arguments) == 1
    told = capsys.readouterr().out.splitlines()
    named = sorted(line.removeprefix("  script: ") for line in told if line.startswith("  script: "))
    assert named == [str(file) for file in scripts]
    assert scripts[0].read_text() == "# edited\n"
    assert told[-1] == f"1 other scripts in {tmp_path / 'found'} are not of this hunt"


def _saved(setup):
    return Program((setup,), ("x0",), ("result = x0",), "once", "", 0, frozenset()).to_json()


def test_a_saved_program_stays_when_it_shows_no_difference_any_more(bad, tmp_path):
    mended = _saved("x0 = leaf(2, seed=0)")
    (tmp_path / "corpus.jsonl").write_text(f"{mended}\n")
    assert main(["fuzz", bad, "--examples", "5", "--seconds", "60", "--corpus", str(tmp_path)]) == 1
    lines = (tmp_path / "corpus.jsonl").read_text().splitlines()
    assert lines[0] == mended
    assert len(set(lines)) == len(lines) > 1


def test_saved_programs_whose_plain_run_raises_are_counted_with_the_reason(bad, tmp_path, capsys):
    usable, other = _saved("x0 = leaf(2, seed=0)"), _saved("x0 = torch.of_another_version(2)")
    (tmp_path / "corpus.jsonl").write_text(f"{usable}\n\n{other}\n")
    assert main(["fuzz", "reference", "--examples", "5", "--corpus", str(tmp_path)]) == 0
    reason = "the plain run raises AttributeError: module 'torch' has no attribute 'of_another_version'"
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("2 saved programs: 2 programs in ")
    assert first.endswith(f"; 1 could not be compared, the first since {reason}")
    (tmp_path / "corpus.jsonl").write_text(f"{other}\n")
    assert main(["fuzz", "reference", "--examples", "5", "--corpus", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert told == f"ckpt-conformance: error: none of the saved programs could be compared: {reason}\n"


_INTERRUPTED = """
import os, signal, sys
from ckpt_conformance.cli import main

class Told:
    def write(self, text):
        if "1 differences" in text:
            os.kill(os.getpid(), signal.SIG{0})
        sys.__stdout__.write(text)
    flush = sys.__stdout__.flush

sys.stdout = Told()
sys.exit(main(["fuzz", "scales_output:checkpoint", "--examples", "100000", "--corpus", "found"]))
"""


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_an_interrupted_hunt_tells_and_saves_what_it_found(bad, tmp_path, name):
    script, env = _INTERRUPTED.format(name), {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path,
                         check=False, env=env)  # fmt: skip
    assert (ran.returncode, ran.stderr) == (2, "ckpt-conformance: interrupted\n")
    assert "difference 1, in " in ran.stdout
    assert len((tmp_path / "found" / "corpus.jsonl").read_text().splitlines()) == 1
    assert len(list((tmp_path / "found").glob("*.py"))) == 1


def test_a_corpus_that_cannot_be_made_is_said_before_the_hunt(bad, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["fuzz", bad, "--examples", "40", "--corpus", str(tmp_path / "file")]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)


def test_a_saved_program_that_does_not_compile_ends_with_2(bad, tmp_path, capsys):
    (tmp_path / "corpus.jsonl").write_text(_saved("x0 = ((") + "\n")
    assert main(["fuzz", bad, "--corpus", str(tmp_path)]) == 2
    assert "corpus.jsonl, line 1: no saved program: its source does not compile" in capsys.readouterr().err


def test_a_corpus_that_is_none_ends_with_2(tmp_path, capsys):
    (tmp_path / "corpus.jsonl").write_text("{}\n")
    assert main(["fuzz", "reference", "--corpus", str(tmp_path)]) == 2
    assert "corpus.jsonl, line 1: no saved program" in capsys.readouterr().err


def test_an_unknown_candidate_ends_with_2(capsys):
    assert main(["fuzz", "no-such-candidate"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_without_hypothesis_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert main(["fuzz", "reference"]) == 2
    assert "ckpt-conformance[fuzz]" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device here")
def test_a_device_that_is_not_there_is_said_in_one_line_and_is_no_difference(capsys):
    assert main(["fuzz", "reference", "--device", "cuda", "--examples", "3"]) == 2
    assert "there is no device 'cuda' here" in capsys.readouterr().err
