"""Recorded leak reports as HTML, SARIF, Markdown, JUnit properties and JSON."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from ckpt_conformance.instruments.types import TypeGrowth
from ckpt_conformance.leaks import LeakReport, Status
from ckpt_conformance.leaks.text import as_text
from ckpt_conformance.report.leaks.chart import size
from ckpt_conformance.report.leaks.html import render_leak_html
from ckpt_conformance.report.leaks.junit import junit_properties
from ckpt_conformance.report.leaks.markdown import render_leak_markdown
from ckpt_conformance.report.leaks.picture import dot
from ckpt_conformance.report.leaks.sarif import render_leak_sarif
from ckpt_conformance.report.leaks.schema import leak_problem, leak_schema

RECORDED = sorted(Path(__file__).parents[2].glob("fixtures/reports/leaks/*.json"))
NASTY = "\x1b[31m<script>alert(1)</script>\n::error::x ```"


def recorded(name: str) -> LeakReport:
    (path,) = [path for path in RECORDED if path.stem == name]
    return LeakReport.from_data(json.loads(path.read_text()))


def nasty() -> LeakReport:
    report = recorded("loss-kept")
    steps = tuple(replace(step, label=NASTY, type=NASTY, verdict=NASTY) for step in report.leaks[0].steps)
    leak = replace(report.leaks[0], steps=steps, holder=NASTY, trace=NASTY, root_name=NASTY, reason=NASTY)
    column = replace(report.columns[0], name=NASTY, problem=NASTY)
    return replace(report, leaks=(leak,), command=NASTY, notes=(NASTY,), columns=(column,), gone=(NASTY,))


class Page(HTMLParser):
    """A page's tags, addresses and words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)
        self.words = " ".join(self.words.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in {"href", "src"}]

    def handle_data(self, data):
        self.words += f"{data} "


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_report_fits_its_schema_and_comes_back_whole(path):
    data = json.loads(path.read_text())
    assert leak_problem(data) is None
    jsonschema.Draft202012Validator(leak_schema()).validate(data)
    assert LeakReport.from_data(data).to_data() == data


@pytest.mark.parametrize(
    ("change", "problem"),
    [({"schema": 2}, "report.schema is not 1"), ({"steps": "6"}, "report.steps is no integer")],
)
def test_what_is_no_report_is_refused_with_the_place(change, problem):
    data = recorded("loss-kept").to_data() | change
    assert leak_problem(data) == problem
    assert not jsonschema.Draft202012Validator(leak_schema()).is_valid(data)


def test_the_page_tells_everything_in_order():
    words = Page(render_leak_html(recorded("graph-kept"))).words
    told = [
        "every step keeps 1540 bytes more: held, __main__.TRAINER.losses[2]",
        "Run it again: python -m fixtures.reports.leaks.record",
        "What grew",
        "bytes 5892 7432 8972 10512 12052 13592 +1540 exactly growing",
        "A reference leads to it; drop that reference.",
        "Who holds it module __main__",
        "[2] Tensor suspect tensor made in step 3, which is over: should be gone",
        "~~~~",
        "21 tensors on 4.51 KiB (4620 bytes) → 1 leak; made in steps 3, 4, 5",
        "Step 4, forward, in no region, by aten.mean.default",
        "(2 lines of libraries)",
        "activation, made by MeanBackward0, scalar torch.float32 on cpu",
        "['losses'] (list) 4620",
        "__main__.TRAINER.losses.clear() 4620 bytes",
        "Tolerate it: the entry for the baseline [[leak]] fingerprint",
        "no checkpointing 4352",
        "baseline: 0 entries used, 0 unused",
        "the guard took",
    ]
    places = [words.find(part) for part in told]
    assert -1 not in places, told[places.index(-1)]
    assert places == sorted(places)


def test_the_page_marks_references_that_only_cpp_has():
    words = Page(render_leak_html(recorded("native-cycle"))).words
    assert "._raw_saved_result SavedTensor C++ reference" in words
    assert "._raw_saved_result.data.detach_() 768 bytes" in words


def test_the_region_of_a_birth_and_its_depth_are_told():
    words = Page(render_leak_html(recorded("activation-kept"))).words
    assert "region , 1 deep, by aten.tanh.default" in words
    assert "record.py" in words


def test_the_page_needs_no_network_and_no_script():
    text = render_leak_html(recorded("loss-kept"))
    page = Page(text)
    assert "script" not in page.tags
    assert all(link.startswith("data:image/svg+xml;base64,") for link in page.links)
    assert not re.search(r"https?://|url\(|@import", text)


def test_nothing_from_the_program_becomes_markup():
    text = render_leak_html(nasty())
    assert "script" not in Page(text).tags
    assert "\x1b" not in text
    markdown = render_leak_markdown(nasty())
    assert "<script" not in re.sub(r"(`{4,})text\n.*?\n\1\n", "", markdown, flags=re.DOTALL)
    assert not any(line.startswith("::") for line in markdown.splitlines())
    assert "\x1b" not in dot(nasty().leaks[0])


def test_where_nothing_was_recorded_the_page_says_so():
    report = recorded("loss-kept")
    bare = replace(report.leaks[0], birth=None, facts=None, retained=(), remedies=())
    words = Page(render_leak_html(replace(report, leaks=(bare,), columns=(), command=""))).words
    for told in ("not recorded: births", "Not measured: too much", "Nothing was tried", "given no variants"):
        assert told in words


def test_sarif_has_a_result_with_a_fingerprint_at_the_line_of_birth():
    log = render_leak_sarif(recorded("graph-kept"))
    (result,) = log["runs"][0]["results"]
    assert result["partialFingerprints"] == {"leak/v1": recorded("graph-kept").leaks[0].fingerprint}
    assert (result["ruleId"], result["level"]) == ("leak/held", "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "fixtures/reports/leaks/record.py"}
    assert place["region"]["startLine"] > 1


def test_sarif_suppresses_what_the_baseline_knows():
    report = recorded("loss-kept")
    known = replace(report.leaks[0], status=Status.KNOWN, reason="for the plot")
    (result,) = render_leak_sarif(replace(report, leaks=(known,)))["runs"][0]["results"]
    assert result["level"] == "note"
    assert result["suppressions"] == [{"kind": "external", "justification": "for the plot"}]


def test_the_summary_has_the_growth_and_each_leak_folded():
    text = render_leak_markdown(recorded("graph-kept"))
    assert "| after step | 1 (warm-up) | 2 (warm-up) | 3 |" in text
    assert "| bytes | 5892 | 7432 | 8972 | 10512 | 12052 | 13592 | growing |" in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_junit_gets_the_verdict_and_each_fingerprint():
    report = recorded("graph-kept")
    told = dict(junit_properties(report))
    assert told["ckpt_leaks.bytes_per_step"] == "1540"
    assert told[f"ckpt_leaks.{report.leaks[0].fingerprint}"] == "NEW held: __main__.TRAINER.losses[2]"


def test_the_text_tells_ten_leaks_unless_all_are_asked_for():
    report = recorded("loss-kept")
    many = replace(report, leaks=report.leaks * 12)
    assert as_text(many).count("tried in a child process") == 10
    assert "and 2 more" in as_text(many)
    assert as_text(many, every=True).count("tried in a child process") == 12


def test_the_picture_draws_native_references_dashed_and_suspects_bold():
    (leak,) = recorded("native-cycle").leaks
    assert dot(leak).count("style=dashed") == 3
    assert "style=bold" in dot(recorded("loss-kept").leaks[0])


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**30, "1 GiB")]
)
def test_sizes_are_told_for_people(number, told):
    assert size(number) == told


def test_what_is_late_is_told_on_the_page_and_in_the_log_and_is_no_error():
    report = recorded("late")
    page = Page(render_leak_html(report)).words
    assert page.index("✓ no leak in 6 steps") < page.index("What lives after each step")
    assert "NEW late: __main__.TRAINER.previous[0]" in page
    assert "Tolerate it" not in page
    assert "[[leak]]" not in as_text(report)
    (result,) = render_leak_sarif(report)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("leak/late", "note")
    assert result["partialFingerprints"] == {"leak/v1": report.leaks[0].fingerprint}
    assert render_leak_markdown(report).startswith("## ✓ ")
    assert dict(junit_properties(report))[f"ckpt_leaks.{report.leaks[0].fingerprint}"].startswith(
        "NEW late: "
    )


def test_a_leak_without_an_object_says_what_grows_and_asks_for_no_holder():
    report = recorded("bytes-without-object")
    words = Page(render_leak_html(report)).words
    assert "NEW bytes without an object: bytes on all: 2048 to 4096 a step, growing" in words
    assert (
        f"15.6 KiB (16000 bytes) in all after the warm-up. Fingerprint {report.leaks[0].fingerprint}" in words
    )
    assert "Who holds it" not in words
    assert "no tensor, 16000 bytes -> 1 leak" in as_text(report)


def test_a_page_of_many_leaks_begins_with_a_list_of_them_and_says_how_many_were_traced():
    report = recorded("many")
    page = Page(render_leak_html(report))
    assert [link for link in page.links if link.startswith("#")] == [f"#leak-{at}" for at in range(1, 25)]
    assert (
        "24 of 90 surviving tensors were traced, one for each look for the largest 24 of 30 looks"
        in page.words
    )
    assert "and 14 more (-vv tells all)" in as_text(report)


def test_the_python_types_that_grew_follow_the_growth_in_each_report():
    holder = TypeGrowth(name="Holder<script>", more=3, per_step=0.75)
    report = replace(recorded("loss-kept"), types=(holder,))
    page = render_leak_html(report)
    assert "Python types that grew, by objgraph" in Page(page).words
    assert "Holder<script> 3 +0.75" in Page(page).words
    assert page.index('id="growth"') < page.index('id="types"') < page.index('class="leak NEW')
    assert "script" not in Page(page).tags
    assert "  Python types that grew, by objgraph: Holder<script> +0.75 a step\n" in as_text(report)
    assert "objgraph: Holder&#60;script&#62; &#43;0.75 a step" in render_leak_markdown(report)
    assert report.to_data()["types"] == [{"name": "Holder<script>", "more": 3, "per_step": 0.75}]
    assert leak_problem(report.to_data()) is None


def test_where_no_type_grew_no_report_has_a_place_for_them():
    report = replace(recorded("loss-kept"), types=())
    for text in (render_leak_html(report), as_text(report), render_leak_markdown(report)):
        assert "objgraph" not in text
