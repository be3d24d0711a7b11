"""The console in a real browser: every page light, dark and on a phone, without script, by keyboard, and with axe."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not here; make test-browser installs it")

from tests.service.console_kit import DRIFTS, EVIL, RAMPED, WATCHED, fill, id_of  # noqa: E402
from tests.service.kit import Client, make_folder, open_service  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("UCSEARCH_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(os.environ.get("UCSEARCH_AXE", ROOT / ".venv-full" / "axe" / "package" / "axe.min.js"))
SHOTS = os.environ.get("UCSEARCH_SHOTS")  # a folder for pictures to look at
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")


@dataclass
class Site:
    url: str
    tokens: dict[str, str]
    ids: dict[str, str]

    def pages(self) -> dict[str, str]:
        """Every page by name; tokens and override need more than a viewer."""
        held = self.ids["on hold"]
        return {
            "overview": "/console", "decisions": "/console/decisions", "decision": f"/console/decisions/{held}",
            "evil": f"/console/decisions/{self.ids[EVIL]}", "hold": f"/console/decisions/{held}/override",
            "override": f"/console/decisions/{self.ids['fine']}/override", "monitor": "/console/monitor",
            "series": f"/console/series?name={quote(DRIFTS)}", "log": "/console/log", "plans": "/console/plans",
            "tokens": "/console/tokens", "nothing": "/console/decisions/" + "0" * 64, "nowhere": "/console/nowhere",
            "one plan": "/console/monitor?plan=orders", "empty": "/console/decisions?series=nobody",
        }  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A real server in a thread, with something to look at."""
    import httpx

    from ucsearch.service.run import embedded

    folder = tmp_path_factory.mktemp("service")
    tokens = make_folder(folder, '[server]\nbind = "127.0.0.1:0"\n' + WATCHED, RAMPED)
    service = open_service(folder)
    with embedded(service) as url:

        async def work() -> dict[str, str]:
            async with httpx.AsyncClient(base_url=url, timeout=60) as http:
                client = Client(service, tokens, http, http)
                await fill(client)
                return {name: await id_of(client, name) for name in ("on hold", "fine", EVIL, DRIFTS)}

        yield Site(url, tokens, asyncio.run(work()))


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Any]:  # after the site: playwright keeps an event loop of its own running here
    with playwright.sync_playwright() as p:
        made = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


def enter(context: Any, site: Site, role: str) -> Any:
    page = context.new_page()
    page.goto(site.url)
    page.fill("#token", site.tokens[role])
    page.press("#token", "Enter")
    page.wait_for_url("**/console")
    return page


def watched(page: Any) -> list[str]:
    """Whatever the browser complains about: the policy, missing files, errors."""
    said: list[str] = []
    page.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: said.append(str(e)))
    page.on("dialog", lambda d: said.append(f"dialog {d.message}"))
    return said


@pytest.mark.parametrize(
    ("scheme", "size", "name"), [("light", DESKTOP, "light"), ("dark", DESKTOP, "dark"), ("light", PHONE, "phone")]
)
def test_every_page_in_every_light(browser: Any, site: Site, scheme: str, size: dict[str, int], name: str) -> None:
    context = browser.new_context(color_scheme=scheme, viewport=size, java_script_enabled=True)
    page = enter(context, site, "admin")
    said = watched(page)
    for title, path in site.pages().items():
        response = page.goto(site.url + path)
        assert response.status == (404 if title in ("nothing", "nowhere") else 200), path
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=f"{SHOTS}/{title}-{name}.png", full_page=True)
        # Nothing is wider than the window: whoever reads must not scroll sideways.
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], f"{title} {name}"
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")
        assert page.evaluate("document.images.length") == 0
    assert [x for x in said if "404" not in x] == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, site: Site, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not here; make test-browser gets it")
    # The policy stops every script, this one too; it is lifted for the test alone.
    context = browser.new_context(color_scheme=scheme, viewport=DESKTOP, bypass_csp=True)
    page = context.new_page()
    page.goto(f"{site.url}/console/login")
    found = {"login": axe(page)}
    page.fill("#token", site.tokens["admin"])
    page.press("#token", "Enter")
    page.wait_for_url("**/console")
    for title, path in site.pages().items():
        page.goto(site.url + path)
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        found[title] = axe(page)
    page.goto(site.url + site.pages()["hold"])
    page.check("input[value=other]")
    page.fill("#other", "95")
    page.fill("#why", "for the test of the next page")
    page.click("text=Compare both")
    found["confirm"] = axe(page)
    assert {title: v for title, v in found.items() if v} == {}
    context.close()


def axe(page: Any) -> list[str]:
    page.add_script_tag(path=str(AXE))
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in result["violations"]]


def test_roles_see_what_they_may(browser: Any, site: Site) -> None:
    for role, override, tokens in (("viewer", 403, 403), ("operator", 200, 403), ("admin", 200, 200)):
        context = browser.new_context(java_script_enabled=False)
        page = enter(context, site, role)
        assert page.locator("header nav a", has_text="Tokens").count() == (1 if tokens == 200 else 0)
        assert page.goto(site.url + site.pages()["override"]).status == override
        assert page.goto(site.url + "/console/tokens").status == tokens
        page.goto(site.url + "/console")
        page.click("text=Log out")
        page.wait_for_url("**/console/login")
        assert page.goto(site.url + "/console").url.endswith("login?next=%2Fconsole")
        context.close()
    context = browser.new_context()
    page = context.new_page()
    page.goto(site.url)
    page.fill("#token", "ucs_wrong")
    page.click("button")
    assert "no token of this service" in page.inner_text("[role=alert]")
    context.close()


def test_from_hold_to_an_action_by_keyboard_without_script(browser: Any, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=PHONE)
    page = enter(context, site, "operator")
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the content"
    link = page.locator("a.button", has_text="on hold")
    tab_to(page, link)
    page.keyboard.press("Enter")
    page.wait_for_url("**/override")
    tab_to(page, page.locator("input[value=other]"))
    page.keyboard.press("Space")
    tab_to(page, page.locator("#other"))
    page.keyboard.type("95")
    tab_to(page, page.locator("#why"))
    page.keyboard.type("the open order was placed by hand")
    tab_to(page, page.locator("button", has_text="Compare both"))
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Will be in force")
    assert [page.locator("p.big").nth(i).inner_text() for i in (0, 1)] == ["nothing", "95 pieces"]
    tab_to(page, page.locator("button", has_text="Record the override"))
    page.keyboard.press("Enter")
    page.wait_for_url("**?done=override")
    assert "In force for on hold is now" in page.inner_text("[role=status]")
    assert "overridden" in page.inner_text("main")
    assert page.locator("p.big").first.inner_text() == "95 pieces"
    # And a reload sends nothing again.
    page.reload()
    assert page.locator("table", has_text="Overrides, oldest first").locator("tbody tr").count() == 1
    context.close()


def tab_to(page: Any, target: Any, most: int = 80) -> None:
    """Only the Tab key, and the focus must be seen where it is."""
    element = target.element_handle()
    for _ in range(most):
        if element.evaluate("e => e === document.activeElement"):
            assert element.evaluate("e => getComputedStyle(e).outlineStyle") != "none"
            return
        page.keyboard.press("Tab")
    raise AssertionError("the Tab key does not get there")
