"""The page of reports that no requirement names stays true as requirements come."""

from __future__ import annotations

import re
from pathlib import Path

from ckpt_conformance.standard.registry import requirements

PAGE = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")


def test_no_report_on_the_page_has_a_requirement() -> None:
    listed = set(re.findall(r"^\| ([\w./-]+#\d+) \|", PAGE, re.MULTILINE))
    named = {source for made in requirements() for source in made.sources}
    assert listed
    assert listed & named == set()


def test_the_requirements_that_the_page_refers_to_exist() -> None:
    mentioned = set(re.findall(r"`([a-z]+/[a-z-]+)`", PAGE))
    assert mentioned <= {made.id for made in requirements()}
