"""The proof table's gate: each requirement fails where it should, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from ckpt_conformance.standard.registry import requirements
from fixtures.miniatures.proof import ROOT, Row, complaints, everyone, proof_data, table

# the table takes minutes: all its tests share one, on one worker
pytestmark = [pytest.mark.proof, pytest.mark.xdist_group("proof"), pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def rows() -> Sequence[Row]:
    return table(everyone())


def test_the_gate_is_open(rows: Sequence[Row]) -> None:
    assert complaints(rows, requirements()) == []


def test_what_explain_reads_is_current(rows: Sequence[Row]) -> None:
    data = json.loads((ROOT / "ckpt_conformance" / "standard" / "proof.json").read_text())
    assert data == proof_data(rows)
