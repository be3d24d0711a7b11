"""A service with something to look at: released, on hold, tripped, with a hostile name; and a person in a browser."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import httpx

from tests.service.kit import CONFIG, PLAN, START, Client

WATCHED = CONFIG + "[plan.monitor]\nmax_undercoverage = 0.035\n"
# No order of the grid is within 3 of an open order of 97: then nothing can be sent.
RAMPED = PLAN.replace("shortage = 9.0", "shortage = 9.0\nramp = 3.0").replace(
    'units = "pieces"', 'units = "pieces"\nperiod = "hour"'
)
EVIL = "<img src=x onerror=alert(1)>\"'&{{7*7}}"
ORIGIN = {"Origin": "http://127.0.0.1:8411"}
DRIFTS = "SKU drift"


def items(k: int, *series: str, order: float = 5.0) -> dict[str, Any]:
    """Series to decide in hour k, with 60 members around 8."""
    cutoff = (START + timedelta(hours=k)).isoformat()
    paths = [[8.0 + 0.1 * (j - 30) + h for h in range(3)] for j in range(60)]
    return {
        "items": [
            {"series": name, "state": {"on_hand": 3.0, "open_orders": [order]},
             "forecast": {"members": paths, "cutoff": cutoff, "issued": cutoff, "model": "m"}}
            for name in series
        ]
    }  # fmt: skip


async def fill(client: Client, hours: int = 16) -> None:
    """A stream in which one series drifts until it trips, one that is on hold, and one with an evil name."""
    for k in range(hours):
        made = await client.post("/v1/plans/orders/decisions", items(k, DRIFTS, EVIL))
        assert made.status_code == 200, made.text
        when = (START + timedelta(hours=k + 1)).isoformat()
        told = [
            {"decision": a["id"], "value": 30.0 if a["series"] == DRIFTS else 8.0, "observed_at": when}
            for a in made.json()["items"]
        ]
        assert (await client.post("/v1/outcomes", {"items": told})).status_code == 201
    held = await client.post("/v1/plans/orders/decisions", items(hours, "on hold", order=97.0))
    assert held.json()["items"][0]["outcome"] == "HOLD", held.text
    await client.post("/v1/plans/orders/decisions", items(hours, "fine", DRIFTS, EVIL))


class Person:
    """Somebody with a browser: cookies, and forms that are sent with what the page holds."""

    def __init__(self, client: Client) -> None:
        self.client, self.http = client, client.http

    async def login(self, role: str) -> httpx.Response:
        self.http.cookies.clear()
        data = {"token": self.client.tokens[role], "next": "/console"}
        return await self.http.post("/console/login", data=data, headers=ORIGIN)

    async def look(self, path: str) -> httpx.Response:
        return await self.http.get(path)

    async def send(self, path: str, page: str = "/console", **fields: str) -> httpx.Response:
        """Fill in the form of a page that is sent to `path`, and follow to what comes of it."""
        found = await self.look(page)
        form = form_of(found.text, path)
        response = await self.http.post(path, data={**form, **fields}, headers=ORIGIN)
        if response.status_code == 303:
            return await self.look(response.headers["location"])
        return response


def form_of(text: str, action: str) -> dict[str, str]:
    """The hidden fields of the form with this action."""
    found = re.search(rf'<form method="post" action="{re.escape(action)}".*?</form>', text, re.S)
    assert found, f"no form for {action}"
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', found.group(0))
    return {name: unescape(value) for name, value in fields}


async def id_of(client: Client, series: str) -> str:
    found = await client.get("/v1/decisions", params={"series": series, "limit": 1})
    return str(found.json()["items"][0]["id"])
