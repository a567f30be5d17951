"""The symbol of each verdict and what it means: the legend of every page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ckpt_conformance.report.model import Verdict

SYMBOLS: Final[Mapping[Verdict, str]] = {
    Verdict.PASSED: "✓",
    Verdict.FAILED: "✗",
    Verdict.REFUSED: "⊘",
    Verdict.EXPECTED: "◇",
    Verdict.ADVISORY: "△",
    Verdict.NOT_APPLICABLE: "·",
    Verdict.CRASHED: "‼",
    Verdict.HUNG: "∞",
}
"""A symbol for each verdict; a page shows the word or the legend with it."""

MEANINGS: Final[Mapping[Verdict, str]] = {
    Verdict.PASSED: "the requirement holds",
    Verdict.FAILED: "wrong values, a leak, a crash, or a refusal of what every candidate must do",
    Verdict.REFUSED: "a clear error before any damage, where a candidate may leave the thing out",
    Verdict.EXPECTED: "it failed, and the candidate's expectations say so with a reason",
    Verdict.ADVISORY: "it failed, but is a SHOULD or newer than the standard that the candidate pins",
    Verdict.NOT_APPLICABLE: "about another calling style, or a device that is not there",
    Verdict.CRASHED: "the process died; the rest of the run went on",
    Verdict.HUNG: "the time limit passed; the rest of the run went on",
}
"""What each verdict says."""
