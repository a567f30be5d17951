"""Check data against the package's JSON schema, without a dependency.

Only the keywords that `report.schema.json` uses are known here; a test holds this against `jsonschema`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeGuard


@cache
def report_schema() -> Mapping[str, Any]:
    """The schema of `report.json`."""
    text = files("ckpt_conformance.report").joinpath("report.schema.json").read_text(encoding="utf-8")
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def problem_of(data: object) -> str | None:
    """What is wrong with the data as a report, as one line that says where; None where it is one."""
    problem = first_problem(data, report_schema(), "report")
    if problem is None and isinstance(data, Mapping):
        problem = next(_contradictions(data), None)
    return problem


def first_problem(data: object, schema: Mapping[str, Any], where: str) -> str | None:
    """The first way in which data does not fit a schema of ours; None where it fits."""
    return next(_problems(data, schema, where), None)


def _contradictions(report: Mapping[str, Any]) -> Iterator[str]:
    """What a schema cannot say: the counts are the findings', and no requirement has two."""
    verdicts = Counter(finding["verdict"] for finding in report["findings"])
    if report["counts"] != dict(verdicts):
        yield "report.counts does not add up to the findings"
    ids = Counter(finding["requirement"] for finding in report["findings"])
    for id_, number in ids.items():
        if number > 1:
            yield f"report.findings has {number} findings for {id_}"


def _problems(value: object, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    """Every way in which the value does not fit, outermost first."""
    for keyword, check in _KEYWORDS.items():
        if keyword in schema:
            problem = check(value, schema[keyword])
            if problem is not None:
                yield f"{where} {problem}"
                return
    if isinstance(value, Mapping):
        yield from _problems_inside(value, schema, where)
    if isinstance(value, list) and "items" in schema:
        for number, entry in enumerate(value):
            yield from _problems(entry, schema["items"], f"{where}[{number}]")


def _problems_inside(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> Iterator[str]:
    inside = schema.get("properties", {})
    for name, entry in value.items():
        if name in inside:
            yield from _problems(entry, inside[name], f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            yield f"{where} has an unknown entry {name[:50]!r}"


def _wrong_type(value: object, wanted: str | list[str]) -> str | None:
    names = [wanted] if isinstance(wanted, str) else wanted
    return None if any(_TYPES[name](value) for name in names) else f"is no {' or '.join(names)}"


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


_TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": _is_number,
    "integer": _is_integer,
}


def _not_constant(value: object, wanted: object) -> str | None:
    same = value == wanted and not isinstance(value, bool)
    return None if same else f"is not {wanted!r}"


def _not_listed(value: object, wanted: list[str]) -> str | None:
    return None if isinstance(value, str) and value in wanted else f"is none of {', '.join(wanted)}"


def _misses(value: object, names: list[str]) -> str | None:
    missing = [name for name in names if isinstance(value, dict) and name not in value]
    return f"lacks {missing[0]!r}" if missing else None


def _unlike(value: object, pattern: str) -> str | None:
    fits = not isinstance(value, str) or re.search(pattern, value)
    return None if fits else f"does not look like {pattern}"


def _too_long(value: object, most: int) -> str | None:
    return f"is longer than {most}" if isinstance(value, str) and len(value) > most else None


def _too_many(value: object, most: int) -> str | None:
    return f"has more than {most} entries" if isinstance(value, list) and len(value) > most else None


def _too_few(value: object, least: int) -> str | None:
    return f"has fewer than {least} entries" if isinstance(value, list) and len(value) < least else None


def _too_small(value: object, least: float) -> str | None:
    return f"is less than {least}" if _is_number(value) and value < least else None


def _too_large(value: object, most: float) -> str | None:
    return f"is more than {most}" if _is_number(value) and value > most else None


_KEYWORDS: Final[Mapping[str, Callable[[object, Any], str | None]]] = {
    "type": _wrong_type,
    "const": _not_constant,
    "enum": _not_listed,
    "required": _misses,
    "pattern": _unlike,
    "maxLength": _too_long,
    "minItems": _too_few,
    "maxItems": _too_many,
    "minimum": _too_small,
    "maximum": _too_large,
}
"""JSON schema's keywords that hold for a value as a whole, each with what says how a value does not fit."""
