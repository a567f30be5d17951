"""Report folders: never broken, never someone else's, read as data."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from ckpt_conformance.leaks import LeakReport
from ckpt_conformance.report import storage
from ckpt_conformance.report.folder import report_files
from ckpt_conformance.report.leaks.files import write_leak_report
from ckpt_conformance.report.model import ReportError
from ckpt_conformance.report.storage import claim, read_report, write_report
from ckpt_conformance.suite.snapshots import SNAPSHOTS, move_snapshots
from tests.unit.report_samples import FAILING, NASTY, STANDARD, finding, run_of

LEAKS = Path(__file__).parents[2] / "fixtures" / "reports" / "leaks" / "loss-kept.json"
OTHER = run_of(finding("rng/mask"))


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_written_report_reads_back(tmp_path):
    path = write_report(FAILING, tmp_path / "out" / "deep", report_files(FAILING, STANDARD))
    assert read_report(path) == read_report(path.parent) == FAILING
    assert names_in(path.parent) == [
        ".ckpt-conformance", "report.html", "report.json", "report.sarif", "scripts", "summary.md",
    ]  # fmt: skip
    assert (path.parent / "scripts" / "values--sum.py").read_text() == "print(1)\n"


def test_nasty_text_survives_the_file(tmp_path):
    run = run_of(finding("rng/mask", found=NASTY))
    assert read_report(write_report(run, tmp_path, report_files(run, STANDARD))).findings[0].found == NASTY


def test_an_older_report_is_replaced_and_its_scripts_go(tmp_path):
    write_report(FAILING, tmp_path, report_files(FAILING, STANDARD))
    write_report(OTHER, tmp_path, report_files(OTHER, STANDARD))
    assert read_report(tmp_path) == OTHER
    assert names_in(tmp_path / "scripts") == []


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(
        ReportError, match=r"holds something that no run wrote; name a new or an empty folder$"
    ):
        write_report(FAILING, tmp_path)
    assert names_in(tmp_path) == ["thesis.txt"]


def test_a_report_json_of_another_tool_does_not_make_the_folder_ours(tmp_path):
    (tmp_path / "report.json").write_text('{"schema": 1}')
    with pytest.raises(ReportError, match="holds something that no run wrote"):
        claim(tmp_path)


def test_a_folder_with_our_report_but_no_marker_is_ours(tmp_path):
    (tmp_path / "report.json").write_text(json.dumps(FAILING.to_data()))
    write_report(OTHER, tmp_path)
    assert read_report(tmp_path) == OTHER


def test_a_full_disk_leaves_the_old_report_and_nothing_half_written(tmp_path, monkeypatch):
    write_report(OTHER, tmp_path)
    before = names_in(tmp_path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(ReportError, match=r"cannot be written: No space left on device$"):
        write_report(FAILING, tmp_path, report_files(FAILING, STANDARD))
    assert read_report(tmp_path) == OTHER
    assert [name for name in names_in(tmp_path) if name != "scripts"] == before
    assert not (tmp_path / "scripts").exists() or names_in(tmp_path / "scripts") == []


def test_a_link_in_place_of_the_report_is_replaced_not_followed(tmp_path):
    victim = tmp_path / "victim.txt"
    victim.write_text("precious")
    claim(tmp_path / "out")
    (tmp_path / "out" / "report.json").symlink_to(victim)
    write_report(FAILING, tmp_path / "out")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "out" / "report.json").is_symlink()


def test_a_link_in_place_of_a_folder_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    claim(tmp_path / "out")
    (tmp_path / "out" / "scripts").symlink_to(elsewhere)
    with pytest.raises(ReportError, match="is a symbolic link out of the report folder; remove it"):
        write_report(FAILING, tmp_path / "out", report_files(FAILING, STANDARD))
    assert names_in(elsewhere) == []


def test_a_link_in_place_of_a_tests_leak_report_is_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    claim(tmp_path / "out")
    (tmp_path / "out" / "a-test").symlink_to(elsewhere)
    report = LeakReport.from_data(json.loads(LEAKS.read_text()))
    with pytest.raises(ReportError, match="is a symbolic link out of the report folder; remove it"):
        write_leak_report(report, tmp_path / "out", "a-test")
    assert names_in(elsewhere) == []


def test_a_link_in_place_of_an_old_script_is_left_alone(tmp_path):
    victim = tmp_path / "victim.py"
    victim.write_text("precious")
    write_report(FAILING, tmp_path / "out", report_files(FAILING, STANDARD))
    (tmp_path / "out" / "scripts" / "old.py").symlink_to(victim)
    write_report(OTHER, tmp_path / "out", report_files(OTHER, STANDARD))
    assert victim.read_text() == "precious"


def test_snapshots_replace_a_link_and_do_not_follow_it(tmp_path):
    elsewhere, left = tmp_path / "elsewhere", tmp_path / "left"
    for folder in (elsewhere, left, tmp_path / "out"):
        folder.mkdir()
    (elsewhere / "mine.pickle").write_text("precious")
    (left / "new.pickle").write_text("record")
    (tmp_path / "out" / SNAPSHOTS).symlink_to(elsewhere)
    move_snapshots(left, tmp_path / "out")
    assert names_in(elsewhere) == ["mine.pickle"]
    assert names_in(tmp_path / "out" / SNAPSHOTS) == ["new.pickle"]


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", ""])
def test_a_path_out_of_the_folder_is_refused(tmp_path, name):
    with pytest.raises(ReportError, match="is no path within a report folder"):
        write_report(FAILING, tmp_path, {name: "text"})


def test_a_file_in_place_of_the_folder_is_refused_in_one_line(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(ReportError, match=r"out cannot be written: File exists$"):
        claim(tmp_path / "out")


BAD = [
    (b"", "it is not JSON"),
    (b"{", "it is not JSON"),
    (b"\xff\xfe\x00", "it is not JSON"),
    (b'{"schema": NaN}', "NaN is no JSON number"),
    (b"[" * 100_000, "it is not JSON"),
    (b"1" * 10_000, "it is not JSON"),
    (b"{}", "report lacks 'schema'"),
    (b"[]", "report is no object"),
]


@pytest.mark.parametrize(("raw", "said"), BAD, ids=range(len(BAD)))
def test_a_broken_report_is_refused_in_one_line(tmp_path, raw, said):
    (tmp_path / "report.json").write_bytes(raw)
    with pytest.raises(ReportError) as caught:
        read_report(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_huge_report_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "MOST_BYTES", 2**20)
    (tmp_path / "report.json").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(ReportError, match=r"report.json is no report: it is larger than 1 MiB$"):
        read_report(tmp_path)


def test_a_report_that_is_not_there_is_refused_in_one_line(tmp_path):
    with pytest.raises(ReportError, match=r"gone.json cannot be read: No such file or directory$"):
        read_report(tmp_path / "gone.json")
