"""The benchmark of several candidates, and what it is rendered as."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest
import torch

from ckpt_conformance.bench.render import chart, data, table
from ckpt_conformance.bench.run import Line, Timing, bench
from ckpt_conformance.bench.workloads import Size, make_workload
from ckpt_conformance.candidate import Candidate
from ckpt_conformance.catalog.torch_checkpoint import NONREENTRANT


def refuse(fn, *args):
    raise ValueError("not this one")


@pytest.fixture(scope="module")
def lines():
    candidates = [NONREENTRANT, Candidate.from_function(refuse, name="refuses")]
    workload = make_workload("mlp", Size(layers=2, hidden=16, sequence=16), torch.device("cpu"))
    return bench(candidates, workload, rounds=2)


def test_the_plain_run_comes_first_and_a_refusal_keeps_its_words(lines):
    assert [line.candidate for line in lines] == ["plain", "torch-nonreentrant", "refuses"]
    assert [line.error for line in lines] == [None, None, "ValueError: not this one"]


def test_the_table_has_a_row_for_each_with_its_recomputes(lines):
    heading, plain, found, refused = table(lines, 2).splitlines()
    assert heading.split()[0] == "candidate"
    assert plain.split()[-2] == "0"
    assert found.split()[-2] == "2"
    assert refused.split(maxsplit=1)[1] == "not measured: ValueError: not this one"


def test_the_data_is_json_with_what_it_was_measured_on(lines):
    found = json.loads(json.dumps(data(lines, device="here")))
    assert found["schema"] == 1
    assert found["device"] == "here"
    assert found["lines"][1]["memory"]["floor"] == 0


def test_the_chart_is_one_svg_that_escapes_names(lines):
    named = Line("<b>", step=lines[0].step, memory=lines[0].memory)
    root = ET.fromstring(chart([*lines, named], "a & b"))
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a & b" in texts
    assert "<b>" in texts
    assert "refuses" not in texts


def test_the_spread_goes_from_the_first_to_the_third_quartile():
    assert Timing.of([1.0, 2.0, 3.0, 4.0, 5.0]) == Timing(3.0, 3.0)
    assert Timing.of([7.0]) == Timing(7.0, 0.0)
