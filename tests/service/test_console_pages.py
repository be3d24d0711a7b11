"""What pages keep to, whatever is in the log: their size, problems as pages, how states are told."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.service.console_kit import DRIFTS, ORIGIN, RAMPED, WATCHED, Person, fill, id_of, items
from tests.service.kit import PLAN, START, Client, Clock, running
from ucsearch.service import queries
from ucsearch.service.console import presenters
from ucsearch.service.console.render import duration, figure

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
            assert "(in force)" in page.text
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
        monkeypatch.setattr(presenters, "tell", broken)
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


def test_whoever_must_decide_is_told_what_the_rules_allow_and_in_which_unit(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await fill(client, 1)
        path = f"/console/decisions/{await id_of(client, 'on hold')}/override"
        text = (await person.look(path)).text
        assert "<strong>94 to 100</strong> pieces" in text  # within 3 of an open order of 97
        assert "Another number (pieces)" in text
        confirm = await person.send(path, path, choice="other", other="94", why="the lowest that is allowed")
        assert '<p class="big">94 <span class="unit">pieces</span></p>' in confirm.text
        assert "Nothing is recorded yet." in confirm.text
        assert (await person.send(path, path, choice="other", other="93", why="below it")).status_code == 422
        # A comma is told, not taken for something.
        for wrong in ("95,5", "1.000,5", "1,000"):
            found = await person.send(path, path, choice="other", other=wrong, why="as we write it")
            assert found.status_code == 422
            assert "write numbers with a point" in found.text
        fine = (await person.look(f"/console/decisions/{await id_of(client, 'fine')}")).text
        assert '<p class="big">5 <span class="unit">pieces</span></p>' in fine
        assert "<p>order 5</p>" in fine.split("Decided</p>")[0]  # what counts has its name, not only what was decided

    go(tmp_path, test)


def test_a_reason_is_found_as_it_is_shown(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await fill(client, 1)
        for given in ("fallback infeasible", "fallback_infeasible"):
            text = (await person.look(f"/console/decisions?reason={quote(given)}")).text
            assert "on hold" in text
            assert '<option value="fallback_infeasible" selected>fallback infeasible</option>' in text
        none = (await person.look("/console/decisions?series=on")).text
        assert "No decision fits." in none
        assert '<a href="/console/series?name=on+hold&amp;plan=orders">on hold</a>' in none  # by a part of its name
        assert "Series whose names contain" not in (await person.look("/console/decisions?series=nobody")).text

    go(tmp_path, test)


def test_a_service_without_decisions_says_what_comes_next(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        for path in ("/console", "/console/decisions", "/console/monitor", "/console/plans", "/console/log"):
            found = await person.look(path)
            assert found.status_code == 200, path
        assert "POST /v1/plans/orders/decisions" in (await person.look("/console/decisions")).text

    go(tmp_path, test)


def test_the_log_is_exported_from_its_page(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        await client.decide("A", "B")
        assert 'href="/console/log/export"' in (await person.look("/console/log")).text
        found = await person.look("/console/log/export")
        assert "attachment" in found.headers["content-disposition"]
        assert found.content == (await client.get("/v1/log/export")).content
        person.http.cookies.clear()
        assert (await person.look("/console/log/export")).status_code == 303

    go(tmp_path, test)


def test_times_of_forms_are_in_utc_where_they_do_not_say(tmp_path: Path) -> None:
    async def test(person: Person, client: Client) -> None:
        until = (START + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")  # as browsers send it
        page = await person.send("/console/plans/orders/pause", "/console/plans", why="stocktaking", until=until)
        assert f"(until {until.replace('T', ' ')} UTC)" in page.text
        # Another zone that is named stays, and what is no time is told.
        await person.send("/console/plans/orders/resume", "/console/plans", why="again")
        until = (START + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%S+02:00")
        page = await person.send("/console/plans/orders/pause", "/console/plans", why="stocktaking", until=until)
        assert "04:00 UTC)" in page.text
        await person.send("/console/plans/orders/resume", "/console/plans", why="again")
        for wrong in ("tomorrow", "2026-99-99T06:00", "2000-01-01T00:00"):
            page = await person.send("/console/plans/orders/pause", "/console/plans", why="stocktaking", until=wrong)
            assert page.status_code == 422
        made = await person.send(
            "/console/tokens", "/console/tokens", name="b", role="viewer", expires="2027-01-01T00:00"
        )
        assert "2027-01-01 00:00 UTC" in made.text

    go(tmp_path, test)


def test_a_series_of_several_plans_says_which_one_it_shows(tmp_path: Path) -> None:
    config = WATCHED + '[[plan]]\nname = "second"\nsettings = "orders.toml"\n' + FREE

    async def test(person: Person, client: Client) -> None:
        await client.decide("A")
        await client.post("/v1/plans/second/decisions", items(0, "A"))
        text = (await person.look("/console/series?name=A&plan=orders")).text
        assert "Plan orders" in text
        assert "the same series in second" in text
        await client.decide("B")
        assert "the same series" not in (await person.look("/console/series?name=B")).text

    go(tmp_path, test, config)


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=cmd()", "'=cmd()"), ("A;=cmd()", "A;'=cmd()"), ("A; +1", "A;' +1"), ("\uff1d1+1", "'\uff1d1+1"),
        ("A-1; b=2", "A-1; b=2"), ("5 = 5", "5 = 5"),
    ],
)  # fmt: skip
def test_no_part_of_a_cell_is_taken_for_a_formula(name: str, cell: str) -> None:
    line = queries.DecisionLine("id", 1, "decision", "p", name, "HOLD", "none", None, "", None, False, "", "", "")
    (row,) = csv.DictReader(io.StringIO(presenters.csv_text([line]).decode("utf-8-sig")))
    assert row["series"] == cell


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (86400.0, "1 day"),
        (129600.0, "36 hours"),
        (3600.0, "1 hour"),
        (90.0, "90 seconds"),
        (1.0, "1 second"),
        (-3, "0 seconds"),
    ],
)
def test_how_long(seconds: float, text: str) -> None:
    assert duration(seconds) == text
