"""What pages keep to, whatever is in the log: their size, problems as pages, how states are told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.service.console_kit import DRIFTS, ORIGIN, RAMPED, WATCHED, Person, fill, id_of, items
from tests.service.kit import PLAN, START, Client, Clock, running
from ucsearch.service.console import looking
from ucsearch.service.console.pages import figure

MOST_BYTES = 150_000
FREE = "[limits]\nper_token = 10000\nper_agent = 10000\n"


def go(
    folder: Path, test: Callable[[Person, Client], Awaitable[None]], config: str = WATCHED + FREE, role: str = "admin",
    clock: Clock | None = None,
) -> None:  # fmt: skip
    async def run() -> None:
        async with running(folder, config, RAMPED, clock) as client:
            person = Person(client)
            await person.login(role)
            await test(person, client)

    asyncio.run(run())


def test_no_page_is_larger_than_it_may_be_whatever_series_are_called(tmp_path: Path) -> None:
    names = [f"{i:03d}" + "\N{GRINNING FACE}" * 197 for i in range(60)]
    plans = ("orders", "second", "third")
    config = WATCHED + "".join(f'[[plan]]\nname = "{p}"\nsettings = "orders.toml"\n[plan.monitor]\n' for p in plans[1:])

    async def test(person: Person, client: Client) -> None:
        for plan in plans:
            made = await client.post(f"/v1/plans/{plan}/decisions", items(0, *names, order=97.0))
            assert made.status_code == 200
            when = (START + timedelta(hours=1)).isoformat()
            told = [{"decision": a["id"], "value": 8.0, "observed_at": when} for a in made.json()["items"]]
            assert (await client.post("/v1/outcomes", {"items": told})).status_code == 201
        held = await id_of(client, names[0])
        paths = ["/console", "/console/decisions", "/console/monitor", "/console/monitor?plan=second",
                 f"/console/decisions/{held}", f"/console/series?name={quote(names[0])}"]  # fmt: skip
        for path in paths:
            found = await person.look(path)
            assert found.status_code == 200, path
            assert len(found.content) <= MOST_BYTES, path
        # Nothing is lost: the pages of a table hold every row once.
        seen: list[str] = []
        path = "/console/decisions?plan=orders"
        while path:
            text = (await person.look(path)).text
            seen += re.findall(r'scope="row" class="day"><a href="/console/decisions/([0-9a-f]{64})', text)
            older = re.search(r'href="(/console/decisions\?[^"]*before=\d+)">Older', text)
            path = older.group(1).replace("&amp;", "&") if older else ""
        assert len(seen) == len(set(seen)) == len(names)
        more = (await person.look("/console/monitor")).text
        assert re.search(r"And \d+ with less evidence", more)
        assert "/console/monitor?plan=second" in more

    go(tmp_path, test, config + FREE)


def test_of_a_fine_grid_the_best_are_offered(tmp_path: Path) -> None:
    fine = PLAN.replace("[0.0, 5.0, 10.0, 15.0]", str([float(i) for i in range(400)])).replace("depth = 2", "depth = 1")

    async def run() -> None:
        async with running(tmp_path, plan=fine) as client:
            person = Person(client)
            await person.login("operator")
            await client.decide("A")
            page = await person.look(f"/console/decisions/{await id_of(client, 'A')}/override")
            offered = re.findall(r'value="action:(\d+)\.0"', page.text) or re.findall(
                r'value="action:(\d+)"', page.text
            )
            assert len(offered) == 100
            assert "The 100 of 400 allowed actions that can score most" in page.text
            assert "(counts now)" in page.text
            assert len(page.content) <= MOST_BYTES

    asyncio.run(run())


@pytest.mark.parametrize("role", ["", "viewer"])
def test_an_address_that_leads_nowhere_is_a_page(tmp_path: Path, role: str) -> None:
    async def test(person: Person, client: Client) -> None:
        if role:
            await person.login(role)
        else:
            person.http.cookies.clear()
        for method, path, status in (
            ("GET", "/console/nothing", 404), ("GET", "/console/style-0.css", 404), ("PUT", "/console/plans", 405),
            ("GET", "/console/logout", 405),
        ):  # fmt: skip
            found = await person.http.request(method, path, headers=ORIGIN)
            assert (found.status_code, found.headers["content-type"]) == (status, "text/html; charset=utf-8"), path
            assert "default-src 'none'" in found.headers["content-security-policy"]
            assert '<html lang="en">' in found.text
            assert "Back to the overview" in found.text
            assert ("Log out" in found.text) == bool(role)
        # Programs still get JSON.
        for path in ("/v1/nothing", "/consolee", "/nothing"):
            found = await person.http.get(path)
            assert found.headers["content-type"] == "application/problem+json", path

    go(tmp_path, test)


def test_a_bug_in_a_page_is_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    async def test(person: Person, client: Client) -> None:
        await client.decide("A")
        monkeypatch.setattr(looking, "tell", broken)
        found = await person.look(f"/console/decisions/{await id_of(client, 'A')}")
        assert (found.status_code, found.headers["content-type"]) == (500, "text/html; charset=utf-8")
        assert "secret detail" not in found.text
        assert found.headers["x-request-id"] in found.text

    go(tmp_path, test)


def test_a_plan_that_releases_nothing_is_not_called_running(tmp_path: Path) -> None:
    clock = Clock()

    async def test(person: Person, client: Client) -> None:
        await fill(client, 1)
        for path in ("/console", "/console/plans"):
            assert '<span class="tag good">running</span>' in (await person.look(path)).text
        for k in range(1, 40):
            made = await client.post("/v1/plans/orders/decisions", items(k, DRIFTS))
            clock.now = START + timedelta(hours=k + 1)
            when = clock.now.isoformat()
            told = [{"decision": a["id"], "value": 30.0, "observed_at": when} for a in made.json()["items"]]
            assert (await client.post("/v1/outcomes", {"items": told})).status_code == 201
        assert (await client.get("/v1/monitors/orders")).json()["state"] == "tripped"
        for path in ("/console", "/console/plans"):
            text = (await person.look(path)).text.split("<h1>")[1]
            assert "running</span>" not in text
            assert '<span class="tag bad">tripped</span>' in text

    go(tmp_path, test, clock=clock)


@pytest.mark.parametrize(
    ("value", "text"),
    [(103.999, "104"), (-104.00004, "\N{MINUS SIGN}104"), (24.9996, "25"), (0.95, "0.95"), (10.5, "10.5")],
)
def test_a_number_does_not_end_with_a_point(value: float, text: str) -> None:
    assert figure(value) == text
