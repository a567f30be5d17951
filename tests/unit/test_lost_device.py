"""A candidate whose kernel breaks CUDA costs the requirement it broke, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ckpt_conformance.candidate import PLAIN
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import requirements
from ckpt_conformance.suite.device import is_lost
from ckpt_conformance.suite.judge import judge

CUDA = torch.device("cuda")


@pytest.fixture
def broken(monkeypatch):
    def synchronize(device=None):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)


def requirement(**changes):
    made = next(requirements())
    return replace(made, check=lambda candidate, lab: None, devices=frozenset({"cuda"}), **changes)


def test_a_check_that_leaves_the_device_broken_is_a_crash_and_no_fault_of_the_suite(broken):
    finding = judge(requirement(), PLAIN, Lab(CUDA))
    assert finding.verdict is Verdict.CRASHED
    assert finding.found == "RuntimeError: CUDA error: an illegal memory access was encountered"


def test_the_cpu_is_never_lost(broken):
    assert not is_lost(torch.device("cpu"))
    assert is_lost(CUDA)


def test_what_is_missing_here_makes_a_requirement_not_applicable():
    made = requirement(needs=lambda lab: f"needs a second {lab.device.type} device")
    finding = judge(made, PLAIN, Lab(CUDA))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert finding.summary == "needs a second cuda device"
