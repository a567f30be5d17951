"""Last bits may differ where the order of a sum is the implementation's to choose, and nowhere else."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.catalog.torch_checkpoint import REENTRANT
from ckpt_conformance.fuzz.execute import Sight, execute
from ckpt_conformance.fuzz.grammar import make_program
from ckpt_conformance.fuzz.oracle import Difference, difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.rounding import rounds_by_layout, sum_in_any_order
from ckpt_conformance.fuzz.worker import Worker
from fixtures.miniatures.odd_autocast import casts_anew

ONE_ULP = 1 + 2**-23


def _region(expression: str) -> tuple[str, ...]:
    """The lines of a region that gives what an expression of its input `a` does."""
    return ("def region(a):", f"    y = {expression}", "    note(y)", "    return y")


TWO_USES = Program(
    setup=("x0 = leaf(4, 6, seed=0)",),
    leaves=("x0",),
    step=(
        *_region("a.sin() + a.exp()"),
        "result = run(region, (x0,), {}, meet)",
    ),
    plan="once",
    autocast="",
    depth=1,
    features=frozenset(),
)
TWO_LEAVES = replace(
    TWO_USES,
    setup=("x0 = leaf(4, 6, seed=0)", "x1 = leaf(4, 6, seed=1)"),
    leaves=("x0", "x1"),
    step=(
        *TWO_USES.step[:4],
        "results = [run(region, (x,), {}, meet) for x in (x0, x0, x1, x1)]",
        "result = torch.cat(results)",
    ),
)
TWO_REGIONS = replace(
    TWO_USES,
    step=(
        *TWO_USES.step[:4],
        "first = run(region, (x0,), {}, meet)",
        "second = run(region, (x0,), {}, meet)",
        "result = torch.cat([first, second])",
    ),
)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Programs run here before workers are forked, and a pool of threads does not survive that."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def ask() -> Iterator[Worker]:
    worker = Worker(lambda: REENTRANT)
    yield worker
    worker.close()


def _told(program: Program, change: Callable[[Sight], object]) -> Difference:
    """What is told where the sight of a second plain run is changed so."""
    plain, other = execute(program, PLAIN), execute(program, PLAIN)
    change(other)
    found = difference(program, PLAIN, plain, other)
    assert found is not None
    return found


def _gradients_times(*factors: float) -> Callable[[Sight], None]:
    """Multiply the gradients of the leaves, in order; the last factor is that of all that follow."""

    def change(sight: Sight) -> None:
        for number, (name, gradient) in enumerate(sight.gradients.items()):
            assert gradient is not None
            sight.gradients[name] = gradient * factors[min(number, len(factors) - 1)]

    return change


def _result_times(number: int, factor: float) -> Callable[[Sight], None]:
    def change(sight: Sight) -> None:
        sight.results[number] = sight.results[number] * factor

    return change


def _leaf_times(factor: float) -> Callable[[Sight], None]:
    return lambda sight: sight.leaves.update(x0=sight.leaves["x0"] * factor)


def _shifted(program: Program, factor: float) -> tuple[str, bool]:
    """What is said where each gradient is off by a factor, and whether it is called a fault."""
    found = _told(program, _gradients_times(factor))
    return found.aspect, found.fault


def test_one_ulp_is_a_fault_where_two_gradients_meet():
    assert sum_in_any_order(TWO_USES) == ""
    assert _shifted(TWO_USES, ONE_ULP) == ("a gradient differs in its last bits", True)


def test_one_ulp_is_none_where_four_gradients_meet():
    assert sum_in_any_order(TWO_REGIONS) == "4 gradients meet at AccumulateGrad"
    said = "a gradient differs in its last bits, as it may"
    assert _shifted(TWO_REGIONS, ONE_ULP) == (said, False)


def test_what_last_bits_cannot_bring_about_shows_behind_them():
    def change(sight: Sight) -> None:
        _gradients_times(ONE_ULP)(sight)
        sight.marks = {"x0": ["left_here"]}

    found = _told(TWO_REGIONS, change)
    assert (found.aspect, found.fault) == ("leaves are given attributes", True)


def test_one_ulp_of_a_result_is_a_fault_where_no_gradient_has_gone_into_it():
    found = _told(TWO_REGIONS, _result_times(0, ONE_ULP))
    assert (found.aspect, found.fault) == ("a result differs in its last bits", True)


def test_one_ulp_of_the_result_after_a_step_is_none():
    assert not _told(replace(TWO_REGIONS, plan="steps"), _result_times(1, ONE_ULP)).fault


def test_more_than_last_bits_is_a_fault_everywhere():
    assert _shifted(TWO_REGIONS, 1.01) == ("a gradient differs", True)


def test_a_second_backward_adds_to_what_the_first_one_left():
    assert sum_in_any_order(replace(TWO_USES, plan="twice")).startswith("4 gradients meet")


@pytest.mark.parametrize("program", [TWO_USES, TWO_REGIONS])
def test_a_reentrant_candidate_is_right_in_both(program, ask):
    found = ask(program).difference
    assert found is None or not found.fault


def test_what_was_kept_elsewhere_may_round_otherwise():
    transposed = replace(
        TWO_USES,
        setup=("x0 = leaf(4, 8, seed=0)", "w1 = leaf(8, 8, seed=1)", "w2 = leaf(8, 8, seed=2)"),
        leaves=("x0", "w1", "w2"),
        step=(
            *_region("F.linear(F.linear(a, w1).tanh(), w2)"),
            "result = run(region, (x0,), {}, meet)",
        ),
    )
    plain = execute(transposed, PLAIN)
    assert sum_in_any_order(transposed) == ""
    assert (
        rounds_by_layout(transposed, plain) == "saved tensors that lie in memory otherwise take other kernels"
    )
    assert rounds_by_layout(TWO_USES, execute(TWO_USES, PLAIN)) == ""


ONE_CAST = replace(
    TWO_USES,
    setup=("x0 = leaf(4, 6, seed=0)", "w1 = leaf(6, 6, seed=1)"),
    leaves=("x0", "w1"),
    step=(
        *_region("F.linear(a.sin(), w1)"),
        "result = run(region, (x0,), {}, meet)",
    ),
    autocast="float16",
)
A_CAST_FOR_ALL_TURNS = replace(
    ONE_CAST,
    step=(*ONE_CAST.step[:-1], "result = sum(run(region, (x0,), {}, meet) for turn in range(7))"),
)
A_CAST_FOR_EACH_USE = replace(
    ONE_CAST,
    setup=("x0 = leaf(5, 4, seed=0)",),
    leaves=("x0",),
    step=(*_region("a @ a"), "result = run(region, (x0[1:],), {}, meet)"),
)


@pytest.mark.parametrize(
    ("program", "make"),
    [
        (A_CAST_FOR_ALL_TURNS, lambda: REENTRANT),
        (A_CAST_FOR_ALL_TURNS, casts_anew),
        (A_CAST_FOR_EACH_USE, lambda: REENTRANT),
    ],
)
def test_an_implementation_may_cast_as_often_as_it_likes(program, make):
    worker = Worker(make)
    found = worker(program).difference
    worker.close()
    assert found is not None
    assert (found.aspect, found.fault) == ("a gradient differs within half precision, as it may", False)
    assert "gradients are in float16 or not, as casts are kept or not" in found.detail


@pytest.mark.parametrize(("program", "dtype", "factor", "fault"), [
    (ONE_CAST, "float16", 1.001, True),
    (A_CAST_FOR_EACH_USE, "float16", 1.001, False),
    (A_CAST_FOR_EACH_USE, "float16", 1.01, True),
    (A_CAST_FOR_EACH_USE, "bfloat16", 1.01, False),
    (A_CAST_FOR_EACH_USE, "backward", 1.01, True),
    (A_CAST_FOR_EACH_USE, "", 1.001, True),
])  # fmt: skip
def test_a_sum_of_casts_may_be_off_as_its_precision_is(program, dtype, factor, fault):
    assert _shifted(replace(program, autocast=dtype), factor)[1] is fault


STEPPED = replace(A_CAST_FOR_EACH_USE, plan="steps")


@pytest.mark.parametrize(
    ("program", "change", "fault"),
    [
        (STEPPED, _leaf_times(2), False),
        (STEPPED, _result_times(1, 2), False),
        (replace(STEPPED, autocast=""), _leaf_times(2), True),
        (STEPPED, _leaf_times(math.nan), True),
        (STEPPED, _result_times(0, 2), True),
        # no gradient goes into a leaf without a step
        (A_CAST_FOR_EACH_USE, _leaf_times(1.001), True),
    ],
)
def test_a_second_step_multiplies_what_a_sum_of_casts_has_moved(program, change, fault):
    assert _told(program, change).fault is fault


def test_a_fault_in_one_tensor_shows_beside_last_bits_of_another():
    found = _told(TWO_LEAVES, _gradients_times(ONE_ULP, 2))
    assert (found.aspect, found.fault, found.detail[:14]) == ("a gradient differs", True, "gradient of x1")


def test_a_cast_that_the_program_makes_itself_is_none_of_autocasts():
    own = replace(A_CAST_FOR_EACH_USE, step=tuple(line.replace("a @ a", "a.double() * a.double()")
                                                  for line in A_CAST_FOR_EACH_USE.step))  # fmt: skip
    assert _shifted(own, 1.001)[1]


def test_many_casts_leave_open_no_large_part_of_a_sum():
    assert _shifted(replace(A_CAST_FOR_ALL_TURNS, autocast="bfloat16"), 1.3)[1]


def test_a_fault_shows_behind_a_sum_of_casts():
    found = _told(A_CAST_FOR_ALL_TURNS, _gradients_times(1.001, 2))
    assert (found.aspect, found.fault, found.detail[:14]) == ("a gradient differs", True, "gradient of w1")


def test_a_forward_without_autocast_is_a_fault_beside_a_sum_of_casts():
    found = _told(A_CAST_FOR_EACH_USE, _result_times(0, 1.001))
    assert (found.aspect, found.fault) == ("a result differs", True)


def test_where_the_plain_sum_overflows_another_need_not():
    plain, other = execute(A_CAST_FOR_EACH_USE, PLAIN), execute(A_CAST_FOR_EACH_USE, PLAIN)
    plain.gradients["x0"] = other.gradients["x0"].clone()
    plain.gradients["x0"][0, 0] = torch.inf
    other.gradients["x0"][0, 0] = 7e4
    found = difference(A_CAST_FOR_EACH_USE, PLAIN, plain, other)
    assert found is not None
    assert not found.fault
    other.gradients["x0"] = other.gradients["x0"] * -50
    found = difference(A_CAST_FOR_EACH_USE, PLAIN, plain, other)
    assert found is not None
    assert found.fault


def test_the_sums_that_torch_adds_up_otherwise_are_all_known(ask):
    """Whatever torch's reentrant checkpoint differs in by last bits, is a sum in another order."""
    programs = [make_program(random.Random(seed).choice) for seed in range(150)]
    aspects = [found.aspect for program in programs if (found := ask(program).difference)]
    assert not [aspect for aspect in aspects if aspect.endswith(" in its last bits")]
