"""A run as SARIF 2.1.0, which GitHub code scanning and editors read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.model import Finding, Run, Verdict
from ckpt_conformance.report.text import by_cause, evidence
from ckpt_conformance.standard.registry import Requirement

_LEVELS: Final[Mapping[Verdict, str]] = {
    Verdict.FAILED: "error",
    Verdict.CRASHED: "error",
    Verdict.HUNG: "error",
    Verdict.ADVISORY: "warning",
    Verdict.EXPECTED: "note",
}
"""The verdicts that SARIF gets a result for, and its level."""


def render_sarif(run: Run, standard: Sequence[Requirement], *, artifact: str | None = None) -> dict[str, Any]:
    """The run as a SARIF log with one result for each finding that is a failure, expected ones suppressed.

    Args:
        run: The run.
        standard: Every requirement there is; it gives the rules' texts.
        artifact: The file, relative to the repository, that results are shown at; None derives it from the
            candidate's module.
    """
    shown = [finding for finding in by_cause(run.findings) if finding.verdict in _LEVELS]
    known = {made.id: made for made in standard}
    place = artifact or _module_file(run.candidate.target)
    return sarif_log(
        version=run.package,
        rules=[_rule(finding, known.get(finding.requirement)) for finding in shown],
        name=f"ckpt-conformance/{one_line(run.candidate.name)}",
        results=[_result(finding, index, place) for index, finding in enumerate(shown)],
    )


def sarif_log(
    *, version: str, rules: Sequence[Mapping[str, Any]], name: str, results: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A SARIF log of one run: the rules, and the results, which refer to them by their index.

    Args:
        version: The package's version.
        rules: What the results refer to.
        name: What tells runs of the same kind from others.
        results: One for each finding.
    """
    driver = {"name": "ckpt-conformance", "version": version, "rules": rules}
    run = {"tool": {"driver": driver}, "automationDetails": {"id": name}, "results": results}
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _rule(finding: Finding, requirement: Requirement | None) -> dict[str, Any]:
    rule: dict[str, Any] = {"id": finding.requirement, "defaultConfiguration": {"level": "error"}}
    if requirement is not None:
        help_text = f"{requirement.why}\n\nHow a passing implementation does it: {requirement.how}"
        rule |= {"shortDescription": {"text": requirement.sentence}, "help": {"text": help_text}}
    return rule


def _result(finding: Finding, index: int, place: str) -> dict[str, Any]:
    told = f"{one_line(finding.summary)}\nexpected: {finding.expected}\nfound: {finding.found}"
    result = {
        "ruleId": finding.requirement,
        "ruleIndex": index,
        "level": _LEVELS[finding.verdict],
        "message": {"text": evidence(told, 4000)},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": place}, "region": {"startLine": 1}}}],
        "partialFingerprints": {"requirement/v1": finding.requirement},
    }
    if finding.verdict is Verdict.EXPECTED:
        result["suppressions"] = [{"kind": "external", "justification": one_line(finding.summary)}]
    return result


def _module_file(target: str) -> str:
    """The file of the module that `pkg.module:attr` names; a catalog entry's is nobody's in particular."""
    module, colon, _ = target.partition(":")
    plain = all(part.isidentifier() for part in module.split("."))
    return f"{module.replace('.', '/')}.py" if colon and plain else "pyproject.toml"
