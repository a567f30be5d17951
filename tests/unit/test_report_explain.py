"""What `explain` says, and the page of the whole standard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckpt_conformance.report.explain import LEVELS, UnknownRequirementError, explain, find, near_misses
from ckpt_conformance.report.proof import Fault, load_proof, write_proof
from ckpt_conformance.report.standard_doc import standard_markdown
from ckpt_conformance.standard.registry import Level, requirements
from tests.unit.report_samples import STANDARD, requirement


def test_explain_tells_all():
    text = explain(
        requirement("rng/mask", Level.MAY), [Fault("no_rng", "It rewinds.", ("rng/mask",), frozenset())]
    )
    assert text.split("\n") == [
        "rng/mask",
        "",
        "Values are right.",
        "",
        f"level:      MAY: {LEVELS[Level.MAY]}",
        "since:      2026.12",
        "capability: rng: the random state of the forward is replayed in the recompute",
        "devices:    cpu",
        "",
        "Why it matters",
        "  Wrong values teach nothing.",
        "",
        "How a passing implementation does it",
        "  Compute them.",
        "",
        "Where it comes from",
        "  pytorch/pytorch#14253  https://github.com/pytorch/pytorch/issues/14253",
        "",
        "What breaks it (miniatures: small candidates, each wrong in one way)",
        "  no_rng: It rewinds.",
        "",
    ]


def test_explain_without_a_proof_leaves_the_miniatures_out():
    assert "What breaks it" not in explain(requirement("rng/mask"), [])


NEAR = [
    ("views/spilt", ["views/split"]),
    ("split", ["views/split"]),
    ("values_sum", ["values/sum"]),
    ("VALUES/sum", ["values/sum"]),
    ("memory", ["memory/peak"]),
    ("values", ["values/sum", "values/neat"]),
    ("xyzzy", []),
    ("", []),
]


@pytest.mark.parametrize(("wrong", "near"), NEAR, ids=[case[0] for case in NEAR])
def test_near_misses(wrong, near):
    assert near_misses(wrong, [made.id for made in STANDARD]) == near


def test_an_unknown_id_is_refused_with_near_misses():
    with pytest.raises(
        UnknownRequirementError, match=r"^no requirement 'views/spilt'; did you mean views/split\?$"
    ):
        find("views/spilt", STANDARD)
    with pytest.raises(UnknownRequirementError, match=r"`ckpt-conformance list requirements` shows all$"):
        find("\x1b[31m", STANDARD)


def test_a_known_id_is_found():
    assert find("views/split", STANDARD) is STANDARD[1]


def test_the_proof_is_written_as_the_package_reads_it(tmp_path):
    fault = Fault("no_rng", "It rewinds.", ("rng/mask",), frozenset({"values/sum", "rng/mask"}))
    path = write_proof([fault], tmp_path / "proof.json")
    assert json.loads(path.read_text()) == {
        "no_rng": {
            "says": "It rewinds.",
            "breaks": ["rng/mask"],
            "fails": ["rng/mask", "values/sum"],
            "shape": False,
        }
    }


def test_the_packaged_proof_is_about_requirements_of_the_standard():
    named = {made for fault in load_proof() for made in (*fault.breaks, *fault.fails)}
    assert named <= {made.id for made in requirements()}


def test_the_packaged_proof_has_a_miniature_for_every_requirement_of_the_cpu():
    broken = {made for fault in load_proof() for made in fault.breaks}
    assert {made.id for made in requirements() if "cpu" in made.devices} <= broken


def test_the_page_links_to_every_requirement():
    page = standard_markdown(STANDARD)
    assert "5 requirements, families in order of cause" in page
    assert "- **MUST** (4): every candidate must do it" in page
    assert "| [views](#views) | [split](#viewssplit) |" in page
    assert "### views/split\n\n**Values are right.**\n\n- level: MUST: " in page
    assert "- source: [pytorch/pytorch#14253](https://github.com/pytorch/pytorch/issues/14253)\n" in page
    assert "Wrong values teach nothing.\n\n*How:* compute them.\n" in page


def test_the_page_in_docs_is_current():
    page = Path(__file__).parents[2] / "docs" / "standard.md"
    hint = "run `python -m ckpt_conformance.report.standard_doc docs/standard.md`"
    assert page.read_text(encoding="utf-8") == standard_markdown(requirements()), hint
