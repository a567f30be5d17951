"""The Python types that grow with a leak, as objgraph counts them."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from ckpt_conformance.instruments.growth import Trend
from ckpt_conformance.instruments.types import TypeGrowth, count_types, grown_types
from ckpt_conformance.leaks import LeakError, leak_guard
from ckpt_conformance.leaks.text import as_text

CLEAN = """
import sys, torch
from ckpt_conformance.leaks import leak_guard
with leak_guard() as steps:
    for _ in steps:
        torch.ones(16)
assert "objgraph" not in sys.modules
"""


class Holder:
    """Something of Python's that holds a tensor."""

    def __init__(self):
        self.tensor = torch.ones(16)


def report_of(step, **options):
    guard = leak_guard(**options)
    with contextlib.suppress(LeakError), guard as steps:
        for number in steps:
            step(number)
    assert guard.report is not None
    return guard.report


def one_each(more):
    names = ("Holder", "Tensor", "UntypedStorage")
    return tuple(TypeGrowth(name=name, more=more, per_step=1.0) for name in names)


@pytest.mark.parametrize("births", [True, False])
def test_the_class_that_holds_a_tensor_is_named_and_nothing_of_the_guard_is(births):
    kept = []
    report = report_of(lambda _: kept.append(Holder()), births=births)
    assert report.types == one_each(2)
    assert "Python types that grew, by objgraph: Holder +1 a step, Tensor +1 a step" in as_text(report)


def test_what_births_and_torch_remember_of_the_steps_is_not_among_the_types():
    kept = []
    layer = torch.nn.Linear(4, 4)

    def step(_):
        layer.zero_grad()
        checkpoint(layer, torch.ones(2, 4), use_reentrant=False).sum().backward()
        kept.append(Holder())

    grown = {one.name: one.per_step for one in report_of(step, steps=8).types}
    assert grown["Holder"] == 1
    assert grown.keys().isdisjoint({"Birth", "Line", "Census", "StorageWeakRef", "ReferenceType", "list"})


def test_a_leak_of_every_other_step_is_told_as_its_mean():
    kept = []
    report = report_of(lambda number: number % 2 and kept.append(Holder()), steps=10)
    # growth is first seen after the fourth step, so from the fifth to the tenth: three more
    assert report.types[0] == TypeGrowth(name="Holder", more=3, per_step=0.6)


def test_with_too_few_steps_after_the_first_growth_no_type_is_told():
    kept = []
    report = report_of(lambda _: kept.append(Holder()), steps=4, births=False)
    assert report.new
    assert report.types == ()


def test_growth_that_settles_tells_no_type():
    kept = []
    report = report_of(lambda number: number == 2 and kept.append(Holder()), steps=8)
    assert report.growth["bytes"].trend is Trend.SETTLED
    assert report.types == ()


def test_steps_without_a_leak_never_import_objgraph():
    subprocess.run([sys.executable, "-c", CLEAN], check=True, timeout=120)


def test_an_instrument_and_what_it_refers_to_are_left_out_of_a_count():
    class Record:
        pass

    instrument = [{"records": [Record()]}]
    assert count_types()["Record"] == 1
    assert "Record" not in count_types([instrument])


def test_a_class_that_cannot_say_its_name_is_left_out_of_a_count():
    class Nameless(type):
        @property
        def __name__(cls) -> str:
            raise ValueError("no name")

    class Record(metaclass=Nameless):
        pass

    kept = [Record()]
    assert "Record" not in count_types()
    assert kept


def test_the_types_are_told_by_how_much_they_grew_and_then_by_name():
    before, after = {"b": 1, "d": 5, "e": 3}, {"a": 2, "b": 3, "c": 6, "d": 5, "e": 1}
    assert [(one.name, one.more, one.per_step) for one in grown_types(before, after, 4)] == [
        ("c", 6, 1.5),
        ("a", 2, 0.5),
        ("b", 2, 0.5),
    ]
    assert len(grown_types({}, after, 4, most=2)) == 2


def test_two_counts_of_one_moment_are_refused():
    with pytest.raises(ValueError, match="0 steps between two counts"):
        grown_types({}, {}, 0)
