"""The proof table's gate: each requirement fails where it should, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ckpt_conformance.report.proof import load_proof
from ckpt_conformance.standard.registry import requirements
from fixtures.miniatures.proof import Row, complaints, everyone, proof_data, table

# the table takes minutes, and all its tests share one
pytestmark = [pytest.mark.proof, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def rows() -> Sequence[Row]:
    return table(everyone())


def test_the_gate_is_open(rows: Sequence[Row]) -> None:
    assert complaints(rows, requirements()) == []


def test_what_explain_reads_is_current(rows: Sequence[Row]) -> None:
    assert load_proof() == proof_data(rows)
