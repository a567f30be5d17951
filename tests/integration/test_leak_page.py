"""The leak report's page in a real browser: nothing is fetched, and names are shown as text.

Chromium is found on the search path or by `CKPT_CHROMIUM`; where there is none, these tests are skipped.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from html import escape, unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ckpt_conformance.leaks import LeakReport
from ckpt_conformance.report.leaks.html import render_leak_html

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
NASTY = "<script>document.title='run'</script><img src=/fetched onerror=\"document.title='run'\">"


FRAME = """<!doctype html><body><script>
function measure(frame) {{
  const page = frame.contentDocument.documentElement;
  document.body.dataset.wide = page.scrollWidth + " " + page.clientWidth;
}}
</script>
<iframe onload="measure(this)" style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe>"""


@functools.cache
def browser() -> str | None:
    return os.environ.get("CKPT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


needs_browser = pytest.mark.skipif(browser() is None, reason="no Chromium: set CKPT_CHROMIUM or install it")


def report_of(name: str) -> LeakReport:
    folder = Path(__file__).parents[2] / "fixtures" / "reports" / "leaks"
    return LeakReport.from_data(json.loads((folder / f"{name}.json").read_text()))


class Server(ThreadingHTTPServer):
    """Serves one page, and notes every path that is asked for."""

    def __init__(self, page: str) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.page = page.encode()
        self.asked: list[str] = []


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.asked.append(self.path)
        found = self.path == "/page.html"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.server.page if found else b"")

    def log_message(self, *_):
        """Say nothing."""


def opened(page: str, folder: Path, width: int = 1280) -> tuple[str, list[str]]:
    """The page's document after it was shown, and the paths that the browser asked for."""
    server = Server(page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        done = subprocess.run(
            [
                browser(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}",
                f"--window-size={width},900", "--dump-dom", f"http://127.0.0.1:{server.server_port}/page.html",
            ],
            capture_output=True, text=True, timeout=240, check=True,
        )  # fmt: skip
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    return done.stdout, server.asked


@needs_browser
def test_the_page_fetches_nothing(tmp_path):
    document, asked = opened(render_leak_html(report_of("graph-kept")), tmp_path)
    assert "every step keeps 1540 bytes more" in document
    # browsers ask for an icon on their own
    assert [path for path in asked if path != "/favicon.ico"] == ["/page.html"]


@needs_browser
def test_names_that_hold_markup_are_shown_as_text(tmp_path):
    report = report_of("loss-kept")
    leak = replace(report.leaks[0], holder=NASTY, trace=NASTY, root_name=NASTY)
    document, asked = opened(render_leak_html(replace(report, leaks=(leak,), command=NASTY)), tmp_path)
    assert "/fetched" not in asked
    assert "<script>" not in document
    title = re.search(r"<title>(.*?)</title>", document, re.DOTALL)
    assert title
    assert "<script>document.title" in unescape(title[1])


@needs_browser
@pytest.mark.parametrize(
    ("name", "width"), [("graph-kept", 1280), ("graph-kept", 390), ("many", 390), ("late", 390)]
)
def test_the_page_is_no_wider_than_the_window(tmp_path, name, width):
    # our own page has no script, so another one looks at it in a frame; the policy would forbid that
    own = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", render_leak_html(report_of(name)))
    document, _ = opened(FRAME.format(width=width, page=escape(own)), tmp_path)
    measured = re.search(r'data-wide="(\d+) (\d+)"', document)
    assert measured
    assert int(measured[1]) <= int(measured[2])
    assert width - 20 <= int(measured[2]) <= width
