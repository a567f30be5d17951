"""Give each failing finding of a run the script that reproduces it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ckpt_conformance.candidate import Candidate
from ckpt_conformance.report.model import NONCONFORMING, Run, Verdict
from ckpt_conformance.report.script import NoScriptError, script_for
from ckpt_conformance.standard.registry import requirements

_FAILING = NONCONFORMING | {Verdict.ADVISORY, Verdict.EXPECTED}


def with_scripts(run: Run, scripts: Mapping[str, str]) -> Run:
    """The run, with the script of each requirement in its finding."""
    findings = tuple(replace(finding, script=scripts.get(finding.requirement)) for finding in run.findings)
    return replace(run, findings=findings)


def scripts_for(run: Run, candidate: Candidate, target: str) -> dict[str, str]:
    """Requirement to script, for each failure that can be written out."""
    failed = {finding.requirement for finding in run.findings if finding.verdict in _FAILING}
    scripts = {}
    for requirement in requirements():
        if requirement.id in failed:
            try:
                scripts[requirement.id] = script_for(requirement, candidate, target=target, device=run.device)
            except NoScriptError:
                continue
    return scripts
