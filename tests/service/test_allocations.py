"""A truck in a service: decisions by their ids share it, the record is valid, pages and overrides follow."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.console_kit import Person
from tests.service.kit import CONFIG, PLAN, Client, item, running
from ucsearch.verify import verify_file

SHARED = PLAN.replace("depth = 2", 'depth = 2\nmode = "closed"').replace(
    "[run]", '[forecast]\ncoupling = "independent"\n[run]'
) + '[shared]\ntruck = { column = "litres", limit = 40 }\n'  # fmt: skip
NAMES = ("A", "B", "C", "D")
LITRES = {"A": 1.0, "B": 2.0, "C": 3.0, "D": 2.0}
URL = "/v1/plans/orders/allocations"


def go(folder: Path, test: Callable[[Client], Awaitable[None]], plan: str = SHARED) -> None:
    async def run() -> None:
        async with running(folder, CONFIG, plan) as client:
            await test(client)

    asyncio.run(run())


async def decided(client: Client, *names: str) -> dict[str, str]:
    body = {"items": [item(name, on_hand=0.0, level=8.0) for name in names or NAMES]}
    made = await client.post("/v1/plans/orders/decisions", body)
    assert made.status_code == 200, made.text
    return {a["series"]: a["id"] for a in made.json()["items"]}


def items(ids: dict[str, str]) -> list[dict[str, Any]]:
    return [{"decision": id, "columns": {"litres": LITRES[name]}} for name, id in ids.items()]


def test_decisions_share_a_truck_and_what_is_in_force_follows(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        ids = await decided(client)
        made = await client.post(URL, {"items": items(ids)}, key="one")
        assert made.status_code == 201, made.text
        told = made.json()
        assert told["served"]
        assert math.fsum(i["order"] * LITRES[i["series"]] for i in told["items"]) <= 40.0
        cut = next(i for i in told["items"] if i["action"] != i["alone"])
        assert cut["limit"] == "truck"
        (limit,) = told["limits"]
        assert (limit["limit"], limit["used"] <= 40.0, limit["price"] > 0.0) == (40.0, True, True)
        again = await client.post(URL, {"items": items(ids)}, key="one")
        assert again.json() == told
        seen = await client.get(f"/v1/allocations/{told['id']}")
        assert seen.json() == told
        view = (await client.get(f"/v1/series/{cut['series']}")).json()
        assert view["effective"] == cut["action"]
        words = (await client.get(f"/v1/decisions/{cut['decision']}/explain")).json()["text"]
        assert "Next in line for more of truck" in words

    go(tmp_path, test)
    assert {v.status for v in verify_file(tmp_path / "log" / "decisions.db")} == {"valid"}


def test_an_override_that_is_withdrawn_gives_the_share_back(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        ids = await decided(client)
        told = (await client.post(URL, {"items": items(ids)})).json()
        cut = next(i for i in told["items"] if i["action"] != i["alone"])
        path = f"/v1/decisions/{cut['decision']}/override"
        for action, effective in ((0.0, 0.0), (None, cut["action"])):
            expects = (await client.get(f"/v1/series/{cut['series']}")).json()["expects"]
            body = {"action": action, "why": "no room", "expects": expects}
            made = await client.post(path, body, role="operator")
            assert made.status_code == 201, made.text
            assert made.json()["effective"] == effective

    go(tmp_path, test)


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (lambda b: b["items"][0]["columns"].clear(), 422, "columns.litres"),
        (lambda b: b.update(limits={"ship": 3.0}), 422, "limits.ship"),
        (lambda b: b.update(limits={"truck": {"A": 3.0}}), 422, "limits.truck"),
        (lambda b: b["items"].append(b["items"][0]), 422, "occurs twice"),
        (lambda b: b["items"][0].update(decision="0" * 64), 404, "no such decision"),
    ],
)
def test_what_cannot_be_shared_is_refused(tmp_path: Path, change: Any, status: int, words: str) -> None:
    async def test(client: Client) -> None:
        body = {"items": items(await decided(client))}
        change(body)
        made = await client.post(URL, body)
        assert made.status_code == status, made.text
        assert words in made.text
        assert (await client.get("/v1/log", role="viewer")).json()["count"] == len(NAMES)

    go(tmp_path, test)


def test_only_decisions_that_stand_take_part(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        ids = await decided(client)
        await decided(client, "A")
        made = await client.post(URL, {"items": items(ids)})
        assert (made.status_code, "newer decision" in made.text) == (409, True)

    go(tmp_path, test)


def test_a_plan_without_limits_shares_nothing(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        made = await client.post(URL, {"items": items(await decided(client))})
        assert (made.status_code, "no [shared]" in made.text) == (422, True)

    go(tmp_path, test, PLAN)


def test_the_page_of_a_truck(tmp_path: Path) -> None:
    async def test(client: Client) -> None:
        ids = await decided(client)
        told = (await client.post(URL, {"items": items(ids)})).json()
        cut = next(i for i in told["items"] if i["action"] != i["alone"])
        person = Person(client)
        await person.login("viewer")
        assert f"/console/allocations/{told['id']}" in (await person.look("/console/allocations")).text
        page = (await person.look(f"/console/allocations/{told['id']}?more=10")).text
        assert "<h2>truck</h2>" in page
        assert "10 more would be worth" in page
        assert f"/console/decisions/{cut['decision']}" in page
        assert "proved for today" in page
        assert (await person.look(f"/console/allocations/{told['id']}?more=-1")).status_code == 422
        assert (await person.look(f"/console/allocations/{cut['decision']}")).status_code == 404

    go(tmp_path, test)
