"""The site of the documents in a real browser: search without a network, light and dark, on a phone."""

from __future__ import annotations

import http.server
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not here; make test-browser installs it")

ROOT = Path(__file__).resolve().parents[2]
SITE = Path(os.environ.get("UCSEARCH_SITE", ROOT / "build" / "site" / "html"))
CHROMIUM = os.environ.get("UCSEARCH_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PAGES = (
    "index.html",
    "tutorials/planner.html",
    "reference/python/ucsearch.html",
    "reference/settings.html",
    "results.html",
    "worth.html",
)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine"),
    pytest.mark.skipif(not (SITE / "index.html").is_file(), reason="the site is not built; make docs does"),
]


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args, directory=str(SITE))

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as p:
        made = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class Visit:
    """A page with what it asked for and what the browser complained about."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.said: list[str] = []
        self.page.on("request", lambda r: self.asked.append(r.url))
        self.page.on("console", lambda m: self.said.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda e: self.said.append(str(e)))
        self.address = address

    def close(self) -> None:
        """Nothing was fetched from elsewhere, and nothing went wrong."""
        own = (self.address, "data:", "blob:")
        assert [url for url in self.asked if not url.startswith(own)] == []
        assert self.said == []
        self.context.close()


def test_search_finds_a_page_and_leads_there(browser: Any, address: str) -> None:
    visit = Visit(browser, address, viewport=DESKTOP)
    page = visit.page
    page.goto(address)
    page.get_by_role("button", name="Search").first.click()
    page.keyboard.type("shared truck")
    count = page.get_by_text(re.compile(r"^\d+ results?$")).first
    count.wait_for(timeout=15_000)
    assert int(count.inner_text().split()[0]) >= 3
    page.keyboard.press("Control+A")
    page.keyboard.type("xyzzyplugh")
    count.wait_for(state="hidden", timeout=15_000)
    page.keyboard.press("Control+A")
    page.keyboard.type("is this record right")
    found = page.locator("a[href*='log.html']", has_text="right").first  # its title, not the link of the sidebar
    found.wait_for(timeout=15_000)
    found.click()
    page.wait_for_url("**/log.html*", timeout=15_000)
    visit.close()


@pytest.mark.parametrize("word", ["install", "pandas", "excel", "glossary", "calendar"])
def test_search_finds_what_people_look_for(browser: Any, address: str, word: str) -> None:
    visit = Visit(browser, address, viewport=DESKTOP)
    page = visit.page
    page.goto(address)
    page.get_by_role("button", name="Search").first.click()
    page.keyboard.type(word)
    count = page.get_by_text(re.compile(r"^\d+ results?$")).first
    count.wait_for(timeout=15_000)
    assert int(count.inner_text().split()[0]) >= 1
    visit.close()


def test_dark_and_light_by_the_button_and_by_the_system(browser: Any, address: str) -> None:
    scheme = "document.body.getAttribute('data-md-color-scheme')"
    ground = "getComputedStyle(document.body).backgroundColor"
    for system, first in (("light", "default"), ("dark", "slate")):
        visit = Visit(browser, address, viewport=DESKTOP, color_scheme=system)
        page = visit.page
        page.goto(address)
        page.wait_for_function(f"{scheme} === '{first}'")
        seen = {first: page.evaluate(ground)}
        for _ in range(2):  # system, light, dark
            page.locator("form[data-md-component=palette] label:visible").click()
            seen[page.evaluate(scheme)] = page.evaluate(ground)
        assert set(seen) == {"default", "slate"}
        assert seen["default"] != seen["slate"]
        visit.close()


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_wider_than_a_phone(browser: Any, address: str, path: str) -> None:
    visit = Visit(browser, address, viewport=PHONE)
    response = visit.page.goto(address + path)
    assert response.status == 200
    visit.page.wait_for_load_state("networkidle")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert visit.page.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    visit.close()
