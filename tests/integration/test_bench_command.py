"""`ckpt-conformance bench`, as a user types it."""

from __future__ import annotations

import json

import pytest
import torch

from ckpt_conformance.cli import main

SMALL = ["--device", "cpu", "--size", "layers=2", "hidden=16", "sequence=16", "--rounds", "2"]


def test_torch_and_the_plain_run_are_in_the_same_table(capsys):
    assert main(["bench", "reference", *SMALL]) == 0
    out, err = capsys.readouterr()
    first, _, *rows = out.splitlines()
    assert first.endswith("mlp: 2 layers, batch 1, sequence 16, hidden 16, float32")
    assert [row.split()[0] for row in rows] == ["plain", "torch-nonreentrant", "reference"]
    assert "warming up reference" in err


def test_the_figures_and_the_chart_are_written(tmp_path, capsys):
    figures, chart = tmp_path / "figures.json", tmp_path / "chart.svg"
    assert main(["bench", "reference", *SMALL, "--json", str(figures), "--chart", str(chart)]) == 0
    found = json.loads(figures.read_text())
    assert [line["candidate"] for line in found["lines"]] == ["plain", "torch-nonreentrant", "reference"]
    assert found["torch"] == torch.__version__
    assert found["size"] == "2 layers, batch 1, sequence 16, hidden 16, float32"
    assert chart.read_text().startswith("<svg ")


def test_a_region_of_a_file_is_measured(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "import torch\n"
        "from ckpt_conformance.bench.workloads import Workload\n"
        "class Layer:\n"
        "    def region(self, x): return x.sin()\n"
        "    def consumer(self, x, h): return x + h.cos()\n"
        "def mine(size, device):\n"
        "    return Workload('mine', (Layer(),) * size.layers, torch.ones(2, 3, requires_grad=True))\n"
    )
    assert main(["bench", "torch-nonreentrant", *SMALL, "--region", f"{file}:mine"]) == 0
    assert "mine: 2 layers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "nobody"),
        (["reference", "--region", "moe"], "no workload 'moe'"),
        (["reference", "--size", "dtype=int8"], "dtype=int8 is no floating-point type"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, message):
    assert main(["bench", *arguments, "--device", "cpu"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("size", ["hidden", "hidden=0", "width=3", "dtype="])
def test_a_bad_size_is_refused_with_the_usage(capsys, size):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "reference", "--size", size])
    assert stopped.value.code == 2
    assert "layers=N" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "reference", "--json", str(tmp_path / "missing" / "figures.json")])
    assert stopped.value.code == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without CUDA")
def test_cuda_where_there_is_none_is_one_line(capsys):
    assert main(["bench", "reference", "--device", "cuda"]) == 2
    assert "there is no device 'cuda' here" in capsys.readouterr().err
