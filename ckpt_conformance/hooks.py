"""The hooks that other people's conftest may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from ckpt_conformance.candidate import Candidate


def pytest_ckpt_candidates(config: pytest.Config) -> Iterable[Candidate]:  # type: ignore[empty-body]
    """Give the candidates that `pytest --pyargs ckpt_conformance.suite` verifies where it is told none."""
