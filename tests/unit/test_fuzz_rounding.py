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
from ckpt_conformance.fuzz.oracle import difference
from ckpt_conformance.fuzz.program import Program
from ckpt_conformance.fuzz.rounding import rounds_by_layout, sum_in_any_order
from ckpt_conformance.fuzz.worker import Worker
from fixtures.miniatures.odd_autocast import casts_anew

ONE_ULP = 1 + 2**-23

TWO_USES = Program(
    setup=("x0 = leaf(4, 6, seed=0)",),
    leaves=("x0",),
    step=(
        "def region(a):",
        "    y = a.sin() + a.exp()",
        "    note(y)",
        "    return y",
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


def _shifted(program: Program, factor: float) -> tuple[str, bool]:
    """What is said where each gradient is off by a factor, and whether it is called a fault."""
    plain, other = execute(program, PLAIN), execute(program, PLAIN)
    other.gradients = {name: gradient * factor for name, gradient in plain.gradients.items()}
    found = difference(program, PLAIN, plain, other)
    assert found is not None
    return found.aspect, found.fault


def test_one_ulp_is_a_fault_where_two_gradients_meet():
    assert sum_in_any_order(TWO_USES) == ""
    assert _shifted(TWO_USES, ONE_ULP) == ("a gradient differs in its last bits", True)


def test_one_ulp_is_none_where_four_gradients_meet():
    assert sum_in_any_order(TWO_REGIONS) == "4 gradients meet at AccumulateGrad"
    said = "a gradient differs in its last bits, as it may"
    assert _shifted(TWO_REGIONS, ONE_ULP) == (said, False)


def test_what_last_bits_cannot_bring_about_shows_behind_them():
    plain, other = execute(TWO_REGIONS, PLAIN), execute(TWO_REGIONS, PLAIN)
    other.gradients = {name: gradient * ONE_ULP for name, gradient in plain.gradients.items()}
    other.marks = {"x0": ["left_here"]}
    found = difference(TWO_REGIONS, PLAIN, plain, other)
    assert found is not None
    assert (found.aspect, found.fault) == ("leaves are given attributes", True)


def test_one_ulp_of_a_result_is_a_fault_where_no_gradient_has_gone_into_it():
    plain, other = execute(TWO_REGIONS, PLAIN), execute(TWO_REGIONS, PLAIN)
    other.results = [result * ONE_ULP for result in plain.results]
    found = difference(TWO_REGIONS, PLAIN, plain, other)
    assert found is not None
    assert (found.aspect, found.fault) == ("a result differs in its last bits", True)


def test_one_ulp_of_the_result_after_a_step_is_none():
    stepped = replace(TWO_REGIONS, plan="steps")
    plain, other = execute(stepped, PLAIN), execute(stepped, PLAIN)
    other.results[1] *= ONE_ULP
    found = difference(stepped, PLAIN, plain, other)
    assert found is not None
    assert not found.fault


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
            "def region(a):",
            "    y = F.linear(F.linear(a, w1).tanh(), w2)",
            "    note(y)",
            "    return y",
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
        "def region(a):",
        "    y = F.linear(a.sin(), w1)",
        "    note(y)",
        "    return y",
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
    step=("def region(a):", "    y = a @ a", *ONE_CAST.step[2:-1],
          "result = run(region, (x0[1:],), {}, meet)"),
)  # fmt: skip


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


def _fault(program: Program, change: Callable[[Sight], object]) -> bool:
    """Whether what differs where a sight is changed so is called a fault."""
    plain, other = execute(program, PLAIN), execute(program, PLAIN)
    change(other)
    found = difference(program, PLAIN, plain, other)
    assert found is not None
    return found.fault


STEPPED = replace(A_CAST_FOR_EACH_USE, plan="steps")


def _second_result(sight: Sight) -> None:
    sight.results[1] *= 2


def _first_result(sight: Sight) -> None:
    sight.results[0] *= 2


def _leaf_times(factor: float) -> Callable[[Sight], None]:
    return lambda sight: sight.leaves.update(x0=sight.leaves["x0"] * factor)


@pytest.mark.parametrize(
    ("program", "change", "fault"),
    [
        (STEPPED, _leaf_times(2), False),
        (STEPPED, _second_result, False),
        (replace(STEPPED, autocast=""), _leaf_times(2), True),
        (STEPPED, _leaf_times(math.nan), True),
        (STEPPED, _first_result, True),
        # no gradient goes into a leaf without a step
        (A_CAST_FOR_EACH_USE, _leaf_times(1.001), True),
    ],
)
def test_a_second_step_multiplies_what_a_sum_of_casts_has_moved(program, change, fault):
    assert _fault(program, change) is fault


def test_a_fault_in_one_tensor_shows_beside_last_bits_of_another():
    plain, other = execute(TWO_LEAVES, PLAIN), execute(TWO_LEAVES, PLAIN)
    other.gradients = {"x0": plain.gradients["x0"] * ONE_ULP, "x1": plain.gradients["x1"] * 2}
    found = difference(TWO_LEAVES, PLAIN, plain, other)
    assert found is not None
    assert (found.aspect, found.fault, found.detail[:14]) == ("a gradient differs", True, "gradient of x1")


def test_a_cast_that_the_program_makes_itself_is_none_of_autocasts():
    own = replace(A_CAST_FOR_EACH_USE, step=tuple(line.replace("a @ a", "a.double() * a.double()")
                                                  for line in A_CAST_FOR_EACH_USE.step))  # fmt: skip
    assert _shifted(own, 1.001)[1]


def test_many_casts_leave_open_no_large_part_of_a_sum():
    assert _shifted(replace(A_CAST_FOR_ALL_TURNS, autocast="bfloat16"), 1.3)[1]


def test_a_fault_shows_behind_a_sum_of_casts():
    plain, other = execute(A_CAST_FOR_ALL_TURNS, PLAIN), execute(A_CAST_FOR_ALL_TURNS, PLAIN)
    other.gradients = {"x0": plain.gradients["x0"] * 1.001, "w1": plain.gradients["w1"] * 2}
    found = difference(A_CAST_FOR_ALL_TURNS, PLAIN, plain, other)
    assert found is not None
    assert (found.aspect, found.fault, found.detail[:14]) == ("a gradient differs", True, "gradient of w1")


def test_a_forward_without_autocast_is_a_fault_beside_a_sum_of_casts():
    plain, other = execute(A_CAST_FOR_EACH_USE, PLAIN), execute(A_CAST_FOR_EACH_USE, PLAIN)
    other.results = [result * 1.001 for result in plain.results]
    found = difference(A_CAST_FOR_EACH_USE, PLAIN, plain, other)
    assert found is not None
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
