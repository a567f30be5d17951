"""What the requirements about CUDA catch, and what they leave alone; it takes a GPU to see."""

from __future__ import annotations

import pytest
import torch

from ckpt_conformance.catalog import reference
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import CUDA, requirements
from ckpt_conformance.suite.judge import judge
from fixtures.miniatures import odd_cuda
from fixtures.miniatures.proof import BROKEN
from fixtures.miniatures.registry import Miniature, miniatures

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

FAMILY = {made.id: made for made in requirements() if made.devices == CUDA}
WRONG = [found for found in miniatures() if FAMILY.keys() & set(found.breaks)]
RIGHT = [reference.reference, reference.reference_discard, odd_cuda.goes_round_by_another_stream]


def lab() -> Lab:
    return Lab(torch.device("cuda"))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_each_requirement_fails_its_miniature(wrong: Miniature) -> None:
    candidate = wrong.make()
    findings = [judge(FAMILY[made], candidate, lab()) for made in wrong.breaks]
    if all(found.verdict is Verdict.NOT_APPLICABLE for found in findings):
        pytest.skip(findings[0].summary)
    assert {found.requirement for found in findings if found.verdict in BROKEN} == set(wrong.breaks)


@pytest.mark.parametrize("made", FAMILY.values(), ids=FAMILY)
@pytest.mark.parametrize("right", RIGHT, ids=lambda right: right.__name__)
def test_each_requirement_leaves_the_right_ones_alone(made, right) -> None:
    finding = judge(made, right(), lab())
    advice = {"cuda/recompute-on-the-regions-stream"} if right is RIGHT[2] else set()
    assert finding.verdict not in BROKEN or made.id in advice, finding


def test_every_requirement_has_a_miniature() -> None:
    assert FAMILY.keys() <= {made for found in WRONG for made in found.breaks}
