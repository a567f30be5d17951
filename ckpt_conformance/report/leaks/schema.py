"""The JSON schema of a leak report, which ships in the package, and the check against it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ckpt_conformance.report.validate import first_problem


@cache
def leak_schema() -> Mapping[str, Any]:
    """The schema of `leaks.json`."""
    text = files("ckpt_conformance.report.leaks").joinpath("leaks.schema.json").read_text(encoding="utf-8")
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def leak_problem(data: object) -> str | None:
    """What is wrong with the data as a leak report, as one line that says where; None where it is one."""
    return first_problem(data, leak_schema(), "report")
