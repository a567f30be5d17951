"""A run as HTML, Markdown and SARIF."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from ckpt_conformance.report.html import render_html
from ckpt_conformance.report.markdown import escaped, render_markdown
from ckpt_conformance.report.model import Verdict
from ckpt_conformance.report.sarif import render_sarif
from tests.unit.report_samples import FAILING, NASTY, STANDARD, finding, run_of

NASTY_RUN = run_of(
    finding(
        "rng/mask",
        Verdict.FAILED,
        summary=NASTY,
        expected=NASTY,
        found=NASTY,
        trace=(NASTY,),
        script=f"# {NASTY}\n",
    ),
    name=NASTY,
    target=NASTY,
)


class Page(HTMLParser):
    """Collects a page's tags, ids and text, and holds that every tag is closed."""

    VOID = {"meta", "input", "br"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name in {"href", "src"}]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.text += f"{data} "


def test_the_page_shows_verdicts_evidence_and_the_denominator():
    page = Page(render_html(FAILING, STANDARD))
    words = " ".join(page.text.split())
    assert "mylib: conformance partial" in words
    assert "First cause: rng/mask : mask differs" in words
    assert "the standard has 5 requirements: 1 passed, 2 failed, 1 advisory, 1 not run" in words
    assert "Expected same Found other Trace a b Why it matters Wrong values teach nothing." in words
    assert "✗ failed (2) wrong values, a leak, a crash, or a refusal of what every candidate must do" in words


def test_the_page_needs_no_network_and_no_script():
    text = render_html(FAILING, STANDARD)
    page = Page(text)
    assert "script" not in page.tags
    assert page.links == ["#rng--mask"]
    assert not re.search(r"https?://|url\(|@import", text)


def test_the_page_filters_by_each_verdict_that_occurs():
    page = Page(render_html(FAILING, STANDARD))
    assert [id_ for id_ in page.ids if id_.startswith("show-")] == [
        "show-passed",
        "show-failed",
        "show-advisory",
    ]
    assert len(page.ids) == len(set(page.ids))


def test_failures_are_unfolded_and_passes_are_not():
    text = render_html(FAILING, STANDARD)
    assert '<details id="rng--mask" class="failed" open>' in text
    assert '<details id="views--split" class="passed">' in text


def test_nothing_from_the_candidate_becomes_markup():
    text = render_html(NASTY_RUN, STANDARD)
    assert "script" not in Page(text).tags
    assert "<script>alert" not in text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_the_summary_has_the_table_and_the_folded_failures():
    text = render_markdown(FAILING, STANDARD)
    assert text.startswith("## mylib: conformance partial\n\nmylib (function style)<br>")
    table = "| family | ✓ passed | ✗ failed | △ advisory |\n| --- | ---: | ---: | ---: |\n"
    assert f"{table}| rng |  | 1 |  |\n| views | 1 |  |  |\n| values |  | 1 | 1 |\n" in text
    assert "First cause: <code>rng/mask</code>: mask differs\n" in text
    assert "```text\nexpected: same\nfound: other\na\nb\n```" in text
    assert text.count("<details>") == text.count("</details>") == 2


def test_nothing_from_the_candidate_becomes_markdown():
    text = render_markdown(NASTY_RUN, STANDARD)
    fenced = re.sub(r"(`{4,})text\n.*?\n\1\n", "", text, flags=re.DOTALL)
    assert "<script" not in fenced
    assert "\x1b" not in text
    assert not any(line.lstrip().startswith("::") for line in text.split("\n"))


def test_the_summary_stays_below_what_github_takes():
    many = [finding(f"values/v{number}", Verdict.FAILED, found="x" * 8000) for number in range(300)]
    text = render_markdown(run_of(*many), STANDARD)
    assert len(text.encode()) < 2**20
    assert "250 more failures are in the report." in text


@pytest.mark.parametrize(("text", "shown"), [("a|b_c*", "a&#124;b&#95;c&#42;"), ("@me #1", "&#64;me &#35;1")])
def test_what_means_something_to_markdown_becomes_an_entity(text, shown):
    assert escaped(text) == shown


def test_sarif_has_a_result_for_each_failure():
    log = render_sarif(FAILING, STANDARD)
    assert log["version"] == "2.1.0"
    results = log["runs"][0]["results"]
    assert [(one["ruleId"], one["ruleIndex"], one["level"]) for one in results] == [
        ("rng/mask", 0, "error"),
        ("values/sum", 1, "error"),
        ("values/neat", 2, "warning"),
    ]
    assert results[0]["message"]["text"] == "mask differs\nexpected: same\nfound: other"
    where = results[0]["locations"][0]["physicalLocation"]
    assert where == {"artifactLocation": {"uri": "mylib/remat.py"}, "region": {"startLine": 1}}
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["rng/mask", "values/sum", "values/neat"]
    assert rules[0]["shortDescription"] == {"text": "Values are right."}


def test_sarif_suppresses_what_was_expected():
    (result,) = render_sarif(run_of(finding("rng/mask", Verdict.EXPECTED)), STANDARD)["runs"][0]["results"]
    assert result["level"] == "note"
    assert result["suppressions"] == [{"kind": "external", "justification": "a line"}]


def test_sarif_of_a_catalog_entry_is_shown_at_the_project():
    log = render_sarif(run_of(finding("rng/mask", Verdict.HUNG), target="torch-reentrant"), STANDARD)
    where = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert where["artifactLocation"] == {"uri": "pyproject.toml"}
    json.dumps(log, allow_nan=False)
