"""A failing retention or memory finding says who holds what should be gone: in the data, text and page."""

from __future__ import annotations

import pytest

from ckpt_conformance.catalog.torch_checkpoint import NONREENTRANT, REENTRANT
from ckpt_conformance.report.html import render_html
from ckpt_conformance.report.record import record
from ckpt_conformance.report.text import render_text
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import requirements
from ckpt_conformance.suite import check_checkpoint
from ckpt_conformance.suite.judge import judge
from fixtures.miniatures.memory import busy_under_no_grad, never_clears, only_calls_the_function

STASHED = "retention/gradients-with-a-stashed-tensor"
CYCLE = "retention/gradients-with-a-context-cycle"


def finding_of(candidate, requirement):
    (found,) = check_checkpoint(candidate, select=[requirement], on_fail=None)
    return found


@pytest.fixture(scope="module")
def stashed():
    return finding_of(REENTRANT, STASHED)


def test_a_kept_gradient_is_traced_from_the_object_that_holds_its_graph(stashed):
    first, *hops = stashed.trace
    assert first.startswith(
        "float32[256] and 1 more are alive: frame gradients_with_a_stashed_tensor() in gradients.py: "
    )
    assert hops == [
        "      ['stash'] (list)",
        "      [1] (Tensor)",
        "  C++ .grad_fn (MulBackward0)",
        "  C++ .next_functions[1][0] (AccumulateGrad)",
        "  C++ .variable (Tensor)",
        "  C++ .grad (Tensor)",
    ]


def test_where_no_root_leads_to_it_the_cycle_and_the_way_from_it_are_told():
    trace = finding_of(REENTRANT, CYCLE).trace
    alive = "float32[256] and 1 more are alive"
    assert trace[0] == f"{alive}: no root, but a cycle: <KeepsItsOutputBackward>.output.grad_fn"
    assert "  which leads to it from its KeepsItsOutputBackward:" in trace
    assert trace[-2:] == ("  C++ .variable (Tensor)", "  C++ .grad (Tensor)")


def test_the_text_and_the_page_show_the_trace(stashed):
    run = record(REENTRANT, [stashed], list(requirements()))
    assert "C++ .next_functions[1][0] (AccumulateGrad)" in render_text(run, list(requirements()))
    assert "C++ .next_functions[1][0] (AccumulateGrad)" in render_html(run, list(requirements()))


@pytest.mark.parametrize(
    ("miniature", "requirement", "told"),
    [
        (only_calls_the_function, "memory/activations-are-freed", "  C++ ._raw_saved_self (SavedTensor)"),
        (busy_under_no_grad, "memory/nothing-under-no-grad", "      .waiting (list)"),
        (never_clears, "memory/freed-as-consumed", "      .values (dict)"),
        (never_clears, "memory/not-kept-with-retain-graph", "      .values (dict)"),
        (
            only_calls_the_function,
            "memory/chain-peaks-at-one-region",
            "at the peak: 74 blocks of 12288 bytes",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_memory_finding_carries_what_holds_the_memory(miniature, requirement, told):
    assert told in finding_of(miniature(), requirement).trace


def test_a_candidate_that_keeps_nothing_has_nothing_traced():
    assert finding_of(NONREENTRANT, STASHED).trace == ()


def test_a_lab_without_instruments_says_what_survives_and_not_who_holds_it():
    made = next(one for one in requirements() if one.id == STASHED)
    finding = judge(made, REENTRANT, Lab())
    assert finding.found == "2 of 2 detached inputs hold 2048 bytes of gradients"
    assert finding.trace == ()
