"""Workloads by name and from a file."""

from __future__ import annotations

import pytest
import torch

from ckpt_conformance.bench.workloads import Size, WorkloadError, make_workload
from ckpt_conformance.candidate import PLAIN

CPU = torch.device("cpu")


def test_a_named_workload_has_the_size_that_was_asked_for():
    found = make_workload("block", Size(layers=2, hidden=16, sequence=8, batch=3, dtype=torch.bfloat16), CPU)
    assert found.x.shape == (3, 8, 16)
    assert found.x.dtype == torch.bfloat16
    assert len(found.layers) == 2


def test_the_same_workload_has_the_same_values():
    first, second = (make_workload("mlp", Size(layers=1, hidden=8, sequence=4), CPU) for _ in range(2))
    assert torch.equal(first.forward(PLAIN), second.forward(PLAIN))


def test_a_file_gives_a_workload(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from ckpt_conformance.bench.workloads import make_workload\n"
        "def mine(size, device):\n"
        "    return make_workload('mlp', size, device)\n"
    )
    assert make_workload(f"{file}:mine", Size(layers=1, hidden=8, sequence=4), CPU).x.shape == (1, 4, 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("def mine(size, device): return 3", "the factory gave int, not a Workload"),
        ("def other(size, device): return 3", "AttributeError"),
    ],
)
def test_a_file_that_gives_none_is_one_line(tmp_path, text, message):
    file = tmp_path / "mine.py"
    file.write_text(text + "\n")
    with pytest.raises(WorkloadError, match=message):
        make_workload(f"{file}:mine", Size(), CPU)


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(WorkloadError, match=r"there are mlp, block, or FILE\.py:factory"):
        make_workload("moe", Size(), CPU)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(WorkloadError, match=r"no file 'nowhere\.py'"):
        make_workload("nowhere.py:mine", Size(), CPU)
