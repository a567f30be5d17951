"""Files that someone else may have written are data: used whole and checked, or refused in one line."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ckpt_conformance.expectations import ExpectationsError, read_expectations
from ckpt_conformance.leaks.baseline import BaselineError, load_baseline
from ckpt_conformance.report.compare import compare, render_comparison
from ckpt_conformance.report.folder import report_files
from ckpt_conformance.report.leaks.files import leak_files, leak_report_of
from ckpt_conformance.report.model import ReportError
from ckpt_conformance.report.storage import json_text, read_data, read_report
from ckpt_conformance.report.text import render_text
from tests.unit.report_samples import FAILING, STANDARD

QUICK = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    database=None,
)
RUN: dict[str, Any] = FAILING.to_data()
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside."""
    yield path
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        yield from places(value, (*path, key))


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at the path."""
    if not path:
        return value
    changed = copy.deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


def without(data: Any, path: tuple[Any, ...]) -> Any:
    """A copy without what is at the path."""
    changed = copy.deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return changed


def expect_one_line(refusal: Exception, begins: str = "") -> None:
    """What a user is told of a file: one line, and not the whole file."""
    assert str(refusal).startswith(begins)
    assert "\n" not in str(refusal)
    assert len(str(refusal)) < 1000


def used_or_refused(path: Path) -> None:
    """Read a report and use it for everything; if it cannot be read, that is one line."""
    try:
        run = read_report(path)
    except ReportError as refusal:
        expect_one_line(refusal)
        return
    render_text(run, STANDARD).encode()
    for text in report_files(run, STANDARD).values():
        text.encode(errors="backslashreplace")
    render_comparison(compare(run, run)).encode()
    assert json.loads(json_text(run.to_data())) == run.to_data()


@QUICK
@given(path=st.sampled_from(list(places(RUN))), value=ANYTHING)
@example(path=("seconds",), value=1e300)
@example(path=("started",), value="")
@example(path=("findings",), value=[])
@example(path=("candidate", "name"), value="\x1b[31m\n::error::\ud800")
def test_a_report_with_another_value_somewhere_is_used_or_refused(
    tmp_path: Path, path: tuple[Any, ...], value: Any
) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(replaced(RUN, path, value)))
    used_or_refused(file)


@pytest.mark.parametrize("path", list(places(RUN))[1:], ids=lambda path: ".".join(map(str, path)))
def test_a_report_that_lacks_something_is_used_or_refused(tmp_path: Path, path: tuple[Any, ...]) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(without(RUN, path)))
    used_or_refused(file)


@QUICK
@given(end=st.integers(0, len(json_text(RUN)) - 3))
def test_a_report_that_ends_too_early_is_refused(tmp_path: Path, end: int) -> None:
    file = tmp_path / "report.json"
    file.write_text(json_text(RUN)[:end])
    with pytest.raises(ReportError, match="it is not JSON"):
        read_report(file)


@QUICK
@given(position=st.integers(0, len(json_text(RUN)) - 1), byte=st.integers(0, 255))
def test_a_report_with_a_wrong_byte_is_used_or_refused(tmp_path: Path, position: int, byte: int) -> None:
    raw = bytearray(json_text(RUN).encode())
    raw[position] = byte
    file = tmp_path / "report.json"
    file.write_bytes(raw)
    used_or_refused(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": 1, "schema": 1}', "'schema' is there twice"),
        ('{"schema": {"a": 1, "b": 2, "a": 3}}', "'a' is there twice"),
        ('{"seconds": 1e999}', "1e999 is too large a number"),
        ('{"seconds": -1e999}', "-1e999 is too large a number"),
        ('{"seconds": Infinity}', "Infinity is no JSON number"),
        ('{"a": ' * 100_000, "it is not JSON"),
        ("[" * 900 + "]" * 900, "report is no object"),
        ('"\\ud800"', "report is no object"),
        (b"\x80\x04\x95", "it is not JSON"),
    ],
    ids=range(9),
)
def test_what_is_json_for_some_readers_alone_is_refused(tmp_path: Path, text: str | bytes, said: str) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ReportError) as refusal:
        read_report(file)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_number_that_fits_is_kept(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"a": 1.5e300, "b": -0.0}')
    read = read_data(tmp_path / "data.json")
    assert (read["a"], math.copysign(1, read["b"])) == (1.5e300, -1)


LEAKS: dict[str, Any] = json.loads(
    Path(__file__).parents[2].joinpath("fixtures", "reports", "leaks", "loss-kept.json").read_text()
)


@QUICK
@given(path=st.sampled_from(list(places(LEAKS))), value=ANYTHING)
def test_a_leak_report_with_another_value_somewhere_is_used_or_refused(
    path: tuple[Any, ...], value: Any
) -> None:
    data = json.loads(json.dumps(replaced(LEAKS, path, value)))
    try:
        report = leak_report_of(data, Path("leaks.json"))
    except ReportError as refusal:
        expect_one_line(refusal)
        return
    for text in leak_files(report).values():
        text.encode(errors="backslashreplace")


EXPECTED = '[[expected]]\nid = "rng/mask"\nreason = "r"\nkind = "bug"\nissue = "x#1"\nwhen = "<2.7"\n'
BASELINE = '[[leak]]\nfingerprint = "abc"\nreason = "r"\nexpires = 2030-01-31\n'


def expectations_of(path: Path) -> object:
    return read_expectations(path, {"rng/mask"})


@pytest.mark.parametrize(
    ("text", "read", "error"),
    [(EXPECTED, expectations_of, ExpectationsError), (BASELINE, load_baseline, BaselineError)],
    ids=["expectations", "baseline"],
)
@QUICK
@given(position=st.integers(0, 60), put=st.binary(max_size=4), cut=st.integers(0, 8))
def test_a_list_of_known_faults_with_wrong_bytes_is_used_or_refused(
    tmp_path: Path,
    text: str,
    read: Callable[[Path], object],
    error: type[Exception],
    position: int,
    put: bytes,
    cut: int,
) -> None:
    raw = text.encode()
    file = tmp_path / "known.toml"
    file.write_bytes(raw[:position] + put + raw[position + cut :])
    try:
        read(file)
    except error as refusal:
        expect_one_line(refusal, begins=str(file))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("leak = 3\n", "it consists of [[leak]] tables, and of nothing else"),
        ("leak = [3]\n", "it consists of [[leak]] tables, and of nothing else"),
        ("leaks = []\n", "it consists of [[leak]] tables, and of nothing else"),
        ("[[leak]]\nfingerprint = 3\nreason = 'r'\n", "a [[leak]] has a fingerprint, a reason"),
        ("a = " + "[" * 100_000, "known.toml: "),
        ("#" * (1 << 20) + "#", "larger than 1 MiB"),
    ],
)
def test_a_baseline_is_checked(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "known.toml").write_text(text)
    with pytest.raises(BaselineError) as refusal:
        load_baseline(tmp_path / "known.toml")
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
