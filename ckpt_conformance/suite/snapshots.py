"""The allocator's record of a failing check on CUDA, as a file of the report for the usual viewer."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.instruments.snapshot import dump, recorded
from ckpt_conformance.report.html import slug
from ckpt_conformance.report.model import Finding, Verdict
from ckpt_conformance.standard.lab import Lab
from ckpt_conformance.standard.registry import Requirement
from ckpt_conformance.suite.device import is_lost
from ckpt_conformance.suite.judge import judge

SNAPSHOTS: Final = "snapshots"
"""The folder of the records, in a report and among what workers leave."""
_FAMILIES: Final = frozenset({"cuda", "memory", "retention"})
"""The families in which a failure is about memory."""
_FAILING: Final = frozenset({Verdict.FAILED, Verdict.ADVISORY})


def judge_recording(requirement: Requirement, candidate: Candidate, lab: Lab, folder: Path | None) -> Finding:
    """Judge one requirement; where memory fails on CUDA, leave the allocator's record in the folder.

    The finding's trace then ends with the record's place in the report.
    """
    if folder is None or lab.device.type != "cuda" or requirement.family not in _FAMILIES:
        return judge(requirement, candidate, lab)
    name = f"{slug(requirement.id)}.pickle"
    with recorded(lab.device):
        finding = judge(requirement, candidate, lab)
        if finding.verdict not in _FAILING or is_lost(lab.device):
            return finding
        dump(folder / name)
    where = f"the allocator's record: {SNAPSHOTS}/{name}, to be opened at https://pytorch.org/memory_viz"
    return replace(finding, trace=(*finding.trace, where))


def move_snapshots(left: Path, report: Path) -> None:
    """Put the records that were left into the report, in place of those of an earlier run.

    Raises:
        OSError: They cannot be written.
    """
    place = report / SNAPSHOTS
    if place.is_symlink():
        place.unlink()
    if place.is_dir():
        for old in place.glob("*.pickle"):
            old.unlink()
    for found in sorted(left.glob("*.pickle")):
        place.mkdir(exist_ok=True)
        shutil.move(found, place / found.name)
