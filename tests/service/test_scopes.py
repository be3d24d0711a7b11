"""Tokens for some plans and series: what they may not do is refused, what they may not see is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.service.console_kit import ORIGIN, Person, form_of
from tests.service.kit import CONFIG, Client, body, make_folder, running
from ucsearch.errors import InputError, RecordError
from ucsearch.service.tokens import Scope, TokenBook

TWO = (
    f'{CONFIG}[[plan]]\nname = "other"\nsettings = "orders.toml"\n[[plan]]\nname = "third"\nsettings = "orders.toml"\n'
)


def folder_with(folder: Path) -> dict[str, str]:
    """A service with two plans, and tokens for one of them, and for series of one shop."""
    tokens = make_folder(folder, TWO)
    book = TokenBook(folder / "tokens.toml")
    for role in ("agent", "viewer", "operator", "admin"):
        tokens[f"{role} of orders"] = book.add(f"{role} of orders", role, plans=["orders"])
        tokens[f"{role} of shop 1"] = book.add(f"{role} of shop 1", role, plans=["orders", "other"], series=["s1-"])
    return tokens


async def fill(client: Client) -> dict[str, dict[str, Any]]:
    made = {}
    for plan in ("orders", "other"):
        answer = await client.post(f"/v1/plans/{plan}/decisions", body("s1-bread", "s2-bread"))
        made |= {f"{plan} {item['series']}": item for item in answer.json()["items"]}
    return made


def go(folder: Path, test: Any) -> None:
    async def run() -> None:
        async with running(folder, tokens=folder_with(folder)) as client:
            await test(client, await fill(client))

    asyncio.run(run())


def test_what_a_token_is_not_for_is_refused(tmp_path: Path) -> None:
    async def test(client: Client, made: dict[str, dict[str, Any]]) -> None:
        own, theirs = made["orders s1-bread"], made["other s2-bread"]
        of_shop = made["orders s2-bread"]
        why = {"why": "a test of scopes"}
        over = {**why, "action": 5.0}
        told = {"value": 4.0, "observed_at": "2026-03-02T06:00:00Z"}
        refused: list[tuple[str, str, Any]] = [
            ("agent of orders", "/v1/plans/other/decisions", body("s1-bread")),
            ("agent of shop 1", "/v1/plans/orders/decisions", body("s1-bread", "s2-bread")),
            ("agent of orders", "/v1/outcomes", {"items": [{"decision": theirs["id"], **told}]}),
            ("agent of shop 1", "/v1/outcomes", {"items": [{"decision": of_shop["id"], **told}]}),
            ("operator of orders", "/v1/plans/other/pause", why),
            ("operator of shop 1", "/v1/plans/orders/pause", why),  # it would stop the other shop too
            ("operator of shop 1", "/v1/plans/orders/resume", why),
        ]
        for role, path, content in refused:
            found = await client.post(path, content, role=role)
            assert (found.status_code, found.json()["code"]) == (403, "forbidden"), (role, path, found.text)
        for role, decision in (("operator of orders", theirs), ("operator of shop 1", of_shop)):
            path = f"/v1/decisions/{decision['id']}/override"
            found = await client.post(path, {**over, "expects": decision["id"]}, role=role)
            assert (found.status_code, found.json()["code"]) == (404, "not_found"), found.text
        path = f"/v1/decisions/{own['id']}/override"
        assert (await client.post(path, {**over, "expects": own["id"]}, role="operator of shop 1")).status_code == 201
        allowed = await client.post("/v1/plans/orders/decisions", body("s1-bread"), role="agent of shop 1")
        assert allowed.status_code == 200

    go(tmp_path, test)


def test_what_a_token_is_not_for_is_not_seen(tmp_path: Path) -> None:
    async def test(client: Client, made: dict[str, dict[str, Any]]) -> None:
        async def seen(role: str, **query: Any) -> list[tuple[str, str]]:
            items: list[tuple[str, str]] = []
            path = "/v1/decisions"
            while path:
                found = (await client.get(path, role=role, params=query or None)).json()
                items += [(i["plan"], i["series"]) for i in found["items"]]
                path, query = found["next"], {}
            return sorted(items)

        both, shops = ("orders", "other"), ("s1-bread", "s2-bread")
        assert await seen("viewer") == [(p, s) for p in both for s in shops]
        assert await seen("viewer of orders") == [("orders", s) for s in shops]
        assert await seen("viewer of shop 1", limit=1) == [(p, "s1-bread") for p in both]
        assert await seen("viewer of shop 1", plan="third") == []
        for role, unseen in (("viewer of orders", "other s1-bread"), ("viewer of shop 1", "orders s2-bread")):
            id, series = made[unseen]["id"], made[unseen]["series"]
            for path in (f"/v1/decisions/{id}", f"/v1/decisions/{id}/explain"):
                assert (await client.get(path, role=role)).status_code == 404, (role, path)
            assert (await client.post(f"/v1/decisions/{id}/verify", {}, role=role)).status_code == 404
            found = await client.get(f"/v1/series/{series}", role=role, params={"plan": unseen.split()[0]})
            assert found.status_code == 404
        plans = (await client.get("/v1/plans", role="agent of orders")).json()["items"]
        assert [p["name"] for p in plans] == ["orders"]
        monitors = (await client.get("/v1/monitors", role="viewer of shop 1")).json()["items"]
        assert [m["plan"] for m in monitors] == ["orders", "other"]
        for path in (
            "/v1/log/export",
            "/v1/log",
            "/v1/log/checkpoint",
        ):  # an agent's token exported every plan's log
            for role in ("agent of orders", "viewer of shop 1"):
                assert (await client.get(path, role=role)).status_code == 403, (role, path)
            assert (await client.get(path, role="agent")).status_code == 200
        for path in ("/v1/plans/other/schema", "/v1/monitors/other"):
            assert (await client.get(path, role="viewer of orders")).status_code == 403

    go(tmp_path, test)


def test_pages_show_what_a_token_is_for(tmp_path: Path) -> None:
    async def test(client: Client, made: dict[str, dict[str, Any]]) -> None:
        person = Person(client)
        await person.login("operator of shop 1")
        for path in ("/console", "/console/decisions", "/console/plans", "/console/monitor", "/console/decisions.csv"):
            text = (await person.look(path)).text
            assert "s2-bread" not in text, path
            assert "third" not in text, path
        assert "s1-bread" in (await person.look("/console/decisions")).text
        unseen = made["orders s2-bread"]["id"]
        for path in (f"/console/decisions/{unseen}", f"/console/decisions/{unseen}/override"):
            assert (await person.look(path)).status_code == 404
        assert (await person.look("/console/series?name=s2-bread&plan=orders")).status_code == 404
        for path in ("/console/log", "/console/log/export"):
            assert (await person.look(path)).status_code == 403
        assert (await person.look("/console/monitor?plan=third")).status_code == 403
        await person.login("admin")
        page = (await person.look("/console/tokens")).text
        assert "plans orders, other, series s1-" in " ".join(page.split())
        form = {"name": "anna", "role": "viewer", "expires": "", "plans": "orders, other", "series": "s1-,s2-"}
        made_page = await person.send("/console/tokens", "/console/tokens", **form)
        assert made_page.status_code == 201
        token = next(t for t in client.service.tokens.list() if t.name == "anna")
        assert token.scope == Scope(("orders", "other"), ("s1-", "s2-"))

    go(tmp_path, test)


def test_scopes_are_kept_in_the_file_and_damaged_ones_refused(tmp_path: Path) -> None:
    folder_with(tmp_path)
    path = tmp_path / "tokens.toml"
    before = path.read_text()
    assert 'plans = ["orders", "other"]\nseries = ["s1-"]' in before
    known = {t.name: t.scope for t in TokenBook(path).list()}
    assert known["agent of shop 1"] == Scope(("orders", "other"), ("s1-",))
    assert known["the agent"] == Scope()
    for damaged in ("plans = []", "plans = ['']", "plans = 'orders'", "series = [1]", "plan = ['orders']"):
        path.write_text(before.replace('series = ["s1-"]', damaged.replace("'", '"'), 1))
        with pytest.raises(RecordError, match=r"tokens\.toml"):
            TokenBook(path)
    path.write_text(before)
    with pytest.raises(InputError, match="printable names"):
        TokenBook(path).add("x", "viewer", plans=[""])


GROUPS = """[server]
proxy_user_header = "X-Remote-User"
proxies = ["127.0.0.1"]
proxy_groups_header = "X-Remote-Groups"
proxy_groups = { planners = "operator", "it staff" = "admin" }
[store]"""


def test_groups_that_a_proxy_names_are_roles(tmp_path: Path) -> None:
    async def go_() -> None:
        async with running(tmp_path, CONFIG.replace("[store]", GROUPS, 1)) as client:

            async def page(path: str, groups: str, user: str = "anna") -> Any:
                client.http.cookies.clear()
                headers = {"X-Remote-User": user, "X-Remote-Groups": groups}
                return await client.http.get(path, headers=headers)

            assert "proxy:anna (viewer)" in (await page("/console", "")).text
            assert "proxy:anna (viewer)" in (await page("/console", "strangers,Planners")).text
            assert "proxy:anna (operator)" in (await page("/console", "strangers, planners")).text
            assert "proxy:admin (admin)" in (await page("/console", "planners,it staff", "admin")).text
            assert (await page("/console/tokens", "planners")).status_code == 403
            twice = [("X-Remote-User", "anna"), ("X-Remote-Groups", "planners"), ("X-Remote-Groups", "it staff")]
            assert (await client.http.get("/console", headers=twice)).status_code == 400
            headers = {
                "X-Remote-User": "admin", "X-Remote-Groups": "planners", "Idempotency-Key": "p",
                "Content-Type": "application/json",
            }  # fmt: skip
            paused = await client.http.post("/v1/plans/orders/pause", headers=headers, content=b'{"why": "a test"}')
            assert (paused.status_code, paused.json()["who"]) == (201, "proxy:admin")

    asyncio.run(go_())


def test_an_admin_of_one_plan_makes_no_token_for_everything(tmp_path: Path) -> None:
    async def test(client: Client, _: dict[str, dict[str, Any]]) -> None:
        person = Person(client)
        await person.login("admin")
        form = form_of((await person.look("/console/tokens")).text, "/console/tokens")
        await person.login("admin of orders")
        assert "/console/tokens" not in (await person.look("/console")).text
        own = form_of((await person.look("/console")).text, "/console/logout")
        for path, fields in (
            ("/console/tokens", {"name": "eve", "role": "admin"}),
            ("/console/tokens/revoke", {"name": "viewer"}),
        ):
            found = await client.http.post(path, data={**form, **own, **fields}, headers=ORIGIN)
            assert found.status_code == 403, path
        assert (await person.look("/console/tokens")).status_code == 403
        names = [token.name for token in client.service.tokens.list()]
        assert "eve" not in names

    go(tmp_path, test)
