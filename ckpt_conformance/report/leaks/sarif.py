"""A leak report as SARIF 2.1.0, with the leaks' fingerprints as `partialFingerprints`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ckpt_conformance import __version__
from ckpt_conformance.leaks.model import MEANING, Kind, Leak, LeakReport, Status
from ckpt_conformance.leaks.text import leak_lines, verdict
from ckpt_conformance.report.clean import one_line
from ckpt_conformance.report.sarif import sarif_log
from ckpt_conformance.report.text import evidence

_FALLBACK: Final = "pyproject.toml"
_TEST: Final = re.compile(r"^pytest '?([^':]+\.py)::")


def render_leak_sarif(report: LeakReport) -> dict[str, Any]:
    """The report as a SARIF log with one result a leak; those that the baseline knows are suppressed."""
    kinds = list(dict.fromkeys(leak.kind for leak in report.leaks))
    rules = [_rule(kind) for kind in kinds]
    results = [_result(leak, kinds.index(leak.kind), report) for leak in report.leaks]
    name = "ckpt-conformance/leaks"
    return sarif_log(version=__version__, rules=rules, name=name, results=results)


def _rule(kind: Kind) -> dict[str, Any]:
    return {
        "id": _id(kind),
        "shortDescription": {"text": f"Each step keeps memory: {kind}"},
        "help": {"text": MEANING[kind]},
        "defaultConfiguration": {"level": "note" if kind is Kind.LATE else "error"},
    }


def _id(kind: Kind) -> str:
    return f"leak/{re.sub(r'[^a-z]+', '-', kind.lower()).strip('-')}"


def _result(leak: Leak, index: int, report: LeakReport) -> dict[str, Any]:
    told = "\n".join([one_line(verdict(report)), *leak_lines(leak)])
    result: dict[str, Any] = {
        "ruleId": _id(leak.kind),
        "ruleIndex": index,
        "level": "error" if leak in report.new else "note",
        "message": {"text": evidence(told, 4000)},
        "locations": [{"physicalLocation": _place(leak, report)}],
        "partialFingerprints": {"leak/v1": leak.fingerprint},
    }
    if leak.status is Status.KNOWN:
        result["suppressions"] = [{"kind": "external", "justification": one_line(leak.reason)}]
    return result


def _place(leak: Leak, report: LeakReport) -> Mapping[str, Any]:
    """The user's innermost line at which the memory was made; else the test's file."""
    lines = leak.birth.stack if leak.birth is not None else ()
    for line in reversed(lines):
        if not line.library and not line.file.startswith(("/", "<")):
            return _location(line.file, line.line)
    test = _TEST.match(report.command)
    return _location(test[1] if test else _FALLBACK, 1)


def _location(file: str, line: int) -> Mapping[str, Any]:
    return {"artifactLocation": {"uri": one_line(file)}, "region": {"startLine": max(1, line)}}
