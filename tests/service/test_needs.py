"""What the overview says needs a person: nobody is forgotten, nothing is offered that cannot be done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from html import unescape
from pathlib import Path

from tests.service.console_kit import RAMPED, Person, id_of, items
from tests.service.kit import CONFIG, START, Client, Clock, running
from tests.service.test_rotation import rotate
from ucsearch.service.console.attention import rows_that_fit

DAY = CONFIG + "valid_for_s = 86400.0\n[limits]\nper_token = 10000\nper_agent = 10000\n"


def go(folder: Path, test: Callable[[Person, Client, Clock], Awaitable[None]], config: str = DAY) -> None:
    async def run() -> None:
        clock = Clock()
        async with running(folder, config, RAMPED, clock=clock) as client:
            person = Person(client)
            await person.login("operator")
            await test(person, client, clock)

    asyncio.run(run())


async def needs(person: Person) -> list[str]:
    """The list as plain text, a line each."""
    text = (await person.look("/console")).text.split('<h2 id="plans">')[0]
    found = re.findall(r"<li class=.*?</li>", text, re.S)
    return [" ".join(unescape(re.sub("<[^>]*>", " ", x)).split()) for x in found]


def test_a_series_that_is_no_longer_asked_for_is_found_behind_hundreds_of_others(tmp_path: Path) -> None:
    async def test(person: Person, client: Client, clock: Clock) -> None:
        await client.decide("forgotten", *(f"S{i}" for i in range(150)))
        clock.now += timedelta(hours=25)
        await client.decide(*(f"S{i}" for i in range(150)))
        (found,) = await needs(person)
        assert found.startswith("expired forgotten")
        # And a day later it is history.
        clock.now += timedelta(hours=23, minutes=30)
        await client.decide(*(f"S{i}" for i in range(150)))
        assert await needs(person) == []

    go(tmp_path, test)


def test_many_of_a_kind_are_one_line(tmp_path: Path) -> None:
    async def test(person: Person, client: Client, clock: Clock) -> None:
        await client.decide(*(f"S{i}" for i in range(20)))
        clock.now += timedelta(hours=23, minutes=30)
        (found,) = await needs(person)
        assert found.startswith("expires orders The decisions of 20 series (")
        assert "in 30 minutes" in found
        clock.now += timedelta(hours=2)
        (found,) = await needs(person)
        assert found.startswith("expired orders ended 2026-03-03 06:00 UTC, 90 minutes ago The last decisions of 20")

    go(tmp_path, test)


def test_a_decision_that_lasts_an_hour_does_not_end_soon_all_the_time(tmp_path: Path) -> None:
    async def test(person: Person, client: Client, clock: Clock) -> None:
        await client.decide("A")
        assert await needs(person) == []
        clock.now += timedelta(minutes=50)
        (found,) = await needs(person)
        assert found.startswith("expires A orders decided 2026-03-02 06:00 UTC, 50 minutes ago Valid for 10 minutes")

    go(tmp_path, test, DAY.replace("86400.0", "3600.0"))


def test_nobody_is_asked_to_decide_what_can_no_longer_be_overridden(tmp_path: Path) -> None:
    async def test(person: Person, client: Client, clock: Clock) -> None:
        held = (await client.post("/v1/plans/orders/decisions", items(0, "on hold", order=97.0))).json()["items"][0]
        assert held["outcome"] == "HOLD"
        (found,) = await needs(person)
        assert found.startswith("HOLD on hold")
        assert found.endswith("Decide on hold Why on hold is on hold")
        clock.now += timedelta(hours=25)
        (found,) = await needs(person)
        assert found.startswith("expired on hold")
        page = f"/console/decisions/{await id_of(client, 'on hold')}"
        assert f'href="{page}/override"' not in (await person.look("/console")).text
        shown = (await person.look(page)).text
        assert f'href="{page}/override"' not in shown
        assert "expired" in shown

    go(tmp_path, test)


def test_what_stops_most_comes_first_and_a_hold_before_a_warning(tmp_path: Path) -> None:
    async def test(person: Person, client: Client, clock: Clock) -> None:
        await client.decide("A")
        clock.now += timedelta(hours=23, minutes=30)
        await client.post("/v1/plans/orders/decisions", items(23, "on hold", order=97.0))
        await client.post("/v1/plans/orders/pause", {"why": "stocktaking"}, role="operator")
        assert [line.split()[0] for line in await needs(person)] == ["HOLD", "expires", "paused"]

    go(tmp_path, test)


def test_overdue_outcomes_are_told_with_their_series(tmp_path: Path) -> None:
    async def test(person: Person, client: Client, clock: Clock) -> None:
        await client.post("/v1/plans/orders/decisions", items(0, "late <b>", "told"))
        when = (START + timedelta(hours=1)).isoformat()
        told = {"decision": await id_of(client, "told"), "value": 8.0, "observed_at": when}
        assert (await client.post("/v1/outcomes", {"items": [told]})).status_code == 201
        clock.now += timedelta(hours=3)
        (found,) = [line for line in await needs(person) if line.startswith("overdue")]
        assert "1 outcome of 1 series (late <b>) not reported in time" in found
        monitor = (await person.look("/console/monitor")).text
        assert "late &lt;b&gt;</a> (1). Report them" in monitor

    watched = DAY.replace("[limits]", "[plan.monitor]\ngrace_s = 600.0\n[limits]")
    go(tmp_path, test, watched)


def test_a_rotated_log_hides_nobody(tmp_path: Path) -> None:
    async def test(person: Person, client: Client, clock: Clock) -> None:
        await client.post("/v1/plans/orders/decisions", items(0, "A", "B", "C", "D"))
        old = await id_of(client, "A")
        assert await needs(person) == []
        rotate(tmp_path)
        held = await client.post("/v1/plans/orders/decisions", items(0, "on hold", order=97.0))
        assert held.json()["items"][0]["outcome"] == "HOLD"
        (found,) = await needs(person)
        assert found.startswith("HOLD on hold")
        assert "4 RELEASED" in (text := (await person.look("/console")).text)
        assert "1 HOLD" in text
        # A decision of the file before still has its page.
        assert (await person.look(f"/console/decisions/{old}")).status_code == 200
        clock.now += timedelta(hours=25)
        assert len(await needs(person)) == 5

    go(tmp_path, test)


def test_rows_are_as_many_as_fit() -> None:
    assert rows_that_fit([], 10) == 0
    assert rows_that_fit(["a"] * 50, 100_000) == 50
    long = ["\N{GRINNING FACE}" * 200] * 50
    assert rows_that_fit(long, 100_000) == 100_000 // (700 + 5 * 800)
    assert rows_that_fit(long, 10) == 1
