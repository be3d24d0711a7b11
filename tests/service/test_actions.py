"""What people do: overrides, pauses; what agents report; who may do what."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.kit import CONFIG, START, Client, Clock, body, running
from ucsearch.errors import RecordError
from ucsearch.records.log import AuditLog, AuditReader
from ucsearch.verify import verify_log


def run(folder: Path, go: Any, **options: Any) -> None:
    async def whole() -> None:
        async with running(folder, **options) as client:
            await go(client)

    asyncio.run(whole())


def verified(folder: Path) -> list[str]:
    return [v.status for v in verify_log(folder / "log/decisions.db")]


async def one(client: Client, series: str = "A", **changes: Any) -> dict[str, Any]:
    answer = await client.decide(series, **changes)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"][0]  # type: ignore[no-any-return]


def test_an_override_is_effective_until_it_is_withdrawn(tmp_path: Path) -> None:
    async def go(client: Client) -> None:
        made = await one(client)
        path = f"/v1/decisions/{made['id']}/override"
        first = await client.post(
            path, {"action": 15.0, "why": "a promotion", "expects": made["id"]}, role="operator", key="o1"
        )
        assert first.status_code == 201, first.text
        again = await client.post(
            path, {"action": 15.0, "why": "a promotion", "expects": made["id"]}, role="operator", key="o1"
        )
        assert (again.status_code, again.content) == (201, first.content)
        found = (await client.get("/v1/series/A")).json()
        assert (found["effective"], found["certified"], found["expects"]) == (15, False, first.json()["id"])
        assert first.json()["who"] == "the operator"
        stale = {"action": 5.0, "why": "another idea", "expects": made["id"]}
        assert (await client.post(path, stale, role="operator")).status_code == 409
        off = {"action": 7.0, "why": "off the grid", "expects": first.json()["id"]}
        second = await client.post(path, off, role="operator")
        assert second.status_code == 201
        assert second.json()["off_grid"]
        back = {"action": None, "why": "called off", "expects": second.json()["id"]}
        third = await client.post(path, back, role="operator")
        assert third.json()["effective"] == made["action"]
        assert (await client.get("/v1/series/A")).json()["effective"] == made["action"]

    run(tmp_path, go)
    assert verified(tmp_path) == ["valid"] * 4


@pytest.mark.parametrize("action", [500.0, "nonsense", 1e300])
def test_what_the_rules_forbid_is_refused_and_not_recorded(tmp_path: Path, action: Any) -> None:
    async def go(client: Client) -> None:
        made = await one(client)
        body = {"action": action, "why": "no good idea", "expects": made["id"]}
        answer = await client.post(f"/v1/decisions/{made['id']}/override", body, role="operator")
        assert answer.status_code == 422
        assert answer.json()["code"] == "not_allowed"
        assert answer.json()["allowed"]

    # A capacity makes large orders break the rules.
    from tests.service.kit import PLAN

    run(tmp_path, go, plan=PLAN.replace("holding = 1.0", "holding = 1.0\ncapacity = 100.0"))
    with AuditReader(tmp_path / "log/decisions.db") as log:
        assert log.count() == 1


def test_only_the_newest_decision_can_be_overridden_and_only_while_it_is_valid(tmp_path: Path) -> None:
    clock = Clock()

    async def go(client: Client) -> None:
        old, new = await one(client), await one(client, level=5.0)
        body = {"action": 15.0, "why": "too late", "expects": old["id"]}
        answer = await client.post(f"/v1/decisions/{old['id']}/override", body, role="operator")
        assert (answer.status_code, answer.json()["code"]) == (409, "not_newest")
        clock.now += timedelta(days=2)
        body["expects"] = new["id"]
        answer = await client.post(f"/v1/decisions/{new['id']}/override", body, role="operator")
        assert (answer.status_code, answer.json()["code"]) == (409, "expired")
        missing = await client.post(f"/v1/decisions/{'0' * 64}/override", body, role="operator")
        assert missing.status_code == 404

    run(tmp_path, go, clock=clock)


@pytest.mark.parametrize(("after_us", "status"), [(-1, 201), (0, 409)])
def test_a_decision_is_valid_until_its_time_and_not_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_us: int, status: int
) -> None:
    async def go(client: Client) -> None:
        made = await one(client)
        at = datetime.fromisoformat(made["valid_until"]) + timedelta(microseconds=after_us)
        monkeypatch.setattr(client.service.writer, "_clock", lambda: at)
        body = {"action": 15.0, "why": "at the very second", "expects": made["id"]}
        answer = await client.post(f"/v1/decisions/{made['id']}/override", body, role="operator")
        assert answer.status_code == status, answer.text

    run(tmp_path, go)


def test_of_four_overrides_at_once_one_wins(tmp_path: Path) -> None:
    async def go(client: Client) -> None:
        made = await one(client)
        body = {"action": 15.0, "why": "all at once", "expects": made["id"]}
        path = f"/v1/decisions/{made['id']}/override"
        answers = await asyncio.gather(*(client.post(path, body, role="operator") for _ in range(4)))
        assert sorted(a.status_code for a in answers) == [201, 409, 409, 409]

    run(tmp_path, go)


def test_a_pause_stops_releases_until_it_ends(tmp_path: Path) -> None:
    clock = Clock()

    async def go(client: Client) -> None:
        assert (await one(client))["outcome"] == "RELEASED"
        until = (clock.now + timedelta(hours=1)).isoformat()
        first = await client.post("/v1/plans/orders/pause", {"why": "stocktaking", "until": until}, role="operator")
        assert first.status_code == 201, first.text
        twice = await client.post("/v1/plans/orders/pause", {"why": "stocktaking"}, role="operator")
        assert (twice.status_code, twice.json()["code"]) == (409, "already")
        made = await one(client)
        assert (made["outcome"], made["reason"]) == ("FALLBACK", "paused")
        assert (await client.get("/v1/plans")).json()["items"][0]["paused"]
        clock.now += timedelta(hours=2)
        assert (await one(client))["outcome"] == "RELEASED"
        again = await client.post("/v1/plans/orders/pause", {"why": "once more"}, role="operator")
        assert again.status_code == 201
        assert (await one(client))["reason"] == "paused"
        assert (await client.post("/v1/plans/orders/resume", {"why": "done"}, role="operator")).status_code == 201
        assert (await one(client))["outcome"] == "RELEASED"

    run(tmp_path, go, clock=clock)
    assert set(verified(tmp_path)) == {"valid"}


def test_outcomes_are_recorded_once_and_the_first_report_counts(tmp_path: Path) -> None:
    async def go(client: Client) -> None:
        made = await one(client)
        item = {
            "decision": made["id"],
            "value": 4.5,
            "observed_at": "2026-03-03T06:00:00+00:00",
            "taken": made["action"],
        }
        first = await client.post("/v1/outcomes", {"items": [item]}, key="r1")
        assert first.status_code == 201, first.text
        assert first.json()["items"][0]["followed"] is True
        same = await client.post("/v1/outcomes", {"items": [item]}, key="r1")
        assert (same.status_code, same.content) == (201, first.content)
        other_key = await client.post("/v1/outcomes", {"items": [item]}, key="r2")
        assert (other_key.status_code, other_key.json()["items"][0]["repeated"]) == (200, True)
        changed = await client.post("/v1/outcomes", {"items": [{**item, "value": 9.0, "taken": 0.0}]}, key="r3")
        assert changed.status_code == 201
        assert changed.json()["items"][0]["replaces"] == first.json()["items"][0]["id"]
        assert changed.json()["items"][0]["followed"] is False
        unknown = await client.post("/v1/outcomes", {"items": [{**item, "decision": "0" * 64}]})
        assert unknown.status_code == 404
        ahead = await client.post("/v1/outcomes", {"items": [{**item, "observed_at": "2062-03-03T06:00:00+00:00"}]})
        assert ahead.status_code == 422
        undated = await client.post("/v1/outcomes", {"items": [{**item, "observed_at": "2026-03-03"}]})
        assert undated.status_code == 422
        seen = (await client.get("/v1/series/A")).json()["outcomes"]
        assert [(o["value"], bool(o["replaces"])) for o in seen] == [(4.5, False), (9, True)]

    run(tmp_path, go)
    assert verified(tmp_path) == ["valid"] * 3


ROUTES = [
    ("POST", "/v1/plans/orders/decisions", {"agent"}),
    ("POST", "/v1/outcomes", {"agent"}),
    ("POST", "/v1/decisions/{id}/override", {"operator", "admin"}),
    ("POST", "/v1/plans/orders/pause", {"operator", "admin"}),
    ("POST", "/v1/plans/orders/resume", {"operator", "admin"}),
    ("POST", "/v1/monitors/orders/rearm", {"admin"}),
    *(
        ("GET", path, {"viewer", "operator", "admin", "agent"})
        for path in (
            "/v1/decisions", "/v1/decisions/{id}", "/v1/decisions/{id}/explain", "/v1/series/A", "/v1/monitors",
            "/v1/monitors/orders", "/v1/plans", "/v1/plans/orders/schema", "/v1/log", "/v1/log/checkpoint",
            "/v1/log/export", "/v1/openapi.json",
        )
    ),
    ("POST", "/v1/decisions/{id}/verify", {"viewer", "operator", "admin", "agent"}),
]  # fmt: skip


def test_every_route_asks_for_its_role(tmp_path: Path) -> None:
    async def go(client: Client) -> None:
        made = await one(client)
        for method, path, allowed in ROUTES:
            place = path.format(id=made["id"])
            for role in ("viewer", "operator", "admin", "agent", ""):
                if method == "GET":
                    answer = await client.get(place, role=role)
                else:
                    answer = await client.post(place, {}, role=role)
                expected = {200, 422, 404} if role in allowed else {403} if role else {401}
                assert answer.status_code in expected, (method, path, role, answer.text)
                if answer.status_code != 200:
                    assert answer.headers["content-type"] == "application/problem+json"
        forged = await client.http.get("/v1/decisions", headers={"Authorization": "Bearer ucs_" + "A" * 43})
        assert forged.status_code == 401
        rebound = await client.http.get("/v1/decisions", headers={**client.headers("viewer"), "Host": "evil.example"})
        assert (rebound.status_code, rebound.json()["code"]) == (403, "bad_host")

    run(tmp_path, go)


def test_a_revoked_token_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ucsearch.service.tokens._AGAIN_S", 0.0)

    async def go(client: Client) -> None:
        from ucsearch.service.tokens import TokenBook

        assert (await client.get("/v1/decisions")).status_code == 200
        TokenBook(tmp_path / "tokens.toml").revoke("the viewer")  # another process
        assert (await client.get("/v1/decisions")).status_code == 401
        (tmp_path / "tokens.toml").chmod(0o644)
        assert (await client.get("/v1/decisions", role="operator")).status_code == 401

    run(tmp_path, go)


def test_what_a_person_does_while_the_log_fails_counts_only_when_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go(client: Client) -> None:
        made = await one(client)
        asked = {"action": 5.0, "why": "a delivery is late", "expects": made["id"]}
        steps = [(f"/v1/decisions/{made['id']}/override", asked), ("/v1/plans/orders/pause", {"why": "stocktaking"})]
        for i, (path, content) in enumerate(steps):
            with monkeypatch.context() as failing:
                failing.setattr(AuditLog, "_append", _no_space)
                told = await client.post(path, content, role="operator", key=f"k{i}")
            assert (told.status_code, told.json()["code"]) == (503, "audit_unavailable")
            assert (await client.get("/v1/series/A")).json()["effective"] == made["action"]
            assert (await client.get("/v1/plans")).json()["items"][0]["paused"] is False
        for i, (path, content) in enumerate(steps):
            assert (await client.post(path, content, role="operator", key=f"k{i}")).status_code == 201
        assert (await client.get("/v1/series/A")).json()["effective"] == 5.0

    run(tmp_path, go)


def _no_space(*_: object) -> None:
    raise RecordError("no space left")


def test_a_token_that_is_revoked_while_a_body_is_sent_decides_nothing(tmp_path: Path) -> None:
    async def go(client: Client) -> None:
        raw = json.dumps(body("A")).encode()

        async def slowly() -> AsyncIterator[bytes]:
            yield raw[:20]
            client.service.tokens.revoke("the agent")
            yield raw[20:]

        headers = {**client.headers("agent"), "Idempotency-Key": "k", "Content-Type": "application/json"}
        made = await client.http.post("/v1/plans/orders/decisions", content=slowly(), headers=headers)
        assert (made.status_code, made.json()["code"]) == (401, "unauthorized")
        assert (await client.get("/v1/decisions")).json()["items"] == []

    run(tmp_path, go)


def test_a_decision_can_be_looked_at_explained_verified_and_exported(tmp_path: Path) -> None:
    async def go(client: Client) -> None:
        made = await one(client)
        record = await client.get(f"/v1/decisions/{made['id']}")
        with AuditReader(tmp_path / "log/decisions.db") as log:
            assert record.content == log.get(1).body
            assert record.headers["etag"] == f'"{log.get(1).digest}"'
        told = (await client.get(f"/v1/decisions/{made['id']}/explain")).json()
        assert "RELEASED" in told["text"]
        assert told["svg"].lstrip().startswith("<")
        checked = await client.post(f"/v1/decisions/{made['id']}/verify", {}, role="viewer")
        assert checked.json()["status"] == "valid"
        lines = (await client.get("/v1/log/export")).content
        (tmp_path / "out.jsonl").write_bytes(lines)
        assert [v.status for v in verify_log(tmp_path / "out.jsonl")] == ["valid"]
        point = (await client.get("/v1/log/checkpoint")).json()
        assert point["count"] == 1
        assert point["head"] == made["head"]

    run(tmp_path, go)


def test_whether_a_decision_was_followed_is_told_as_it_was_answered(tmp_path: Path) -> None:
    """The override that counts is the one to follow; after a report nobody can say that they asked for it."""

    async def go(client: Client) -> None:
        made = await one(client)
        about = {"decision": made["id"], "value": 4.0, "observed_at": START.isoformat()}
        path = f"/v1/decisions/{made['id']}/override"
        told = []
        for action in (10.0, 15.0):
            asked = {"action": action, "why": "a delivery is late", "expects": (await _expected(client))}
            assert (await client.post(path, asked, role="operator")).status_code == 201
        for step, taken in enumerate((15.0, 10.0, made["action"]), 1):
            item = {**about, "step": step, "taken": taken}
            told += (await client.post("/v1/outcomes", {"items": [item]})).json()["items"]
        assert [item["followed"] for item in told] == [True, False, False]
        asked = {"action": None, "why": "a delivery is late", "expects": (await _expected(client))}
        assert (await client.post(path, asked, role="operator")).status_code == 409
        seen = (await client.get("/v1/series/A")).json()["outcomes"]
        assert [(o["id"], o["followed"]) for o in seen] == [(o["id"], o["followed"]) for o in told]

    run(tmp_path, go)


async def _expected(client: Client) -> str:
    return str((await client.get("/v1/series/A")).json()["expects"])


def test_what_a_person_asked_for_can_be_reported_as_taken(tmp_path: Path) -> None:
    """The rules allow orders that no forecast could name."""

    async def go(client: Client) -> None:
        made = await one(client)
        asked = {"action": 1e17, "why": "a test of limits", "expects": made["id"], "force": True}
        assert (await client.post(f"/v1/decisions/{made['id']}/override", asked, role="operator")).status_code == 201
        about = {"decision": made["id"], "value": 4.0, "observed_at": START.isoformat()}
        for taken, status in ((1e17, 201), (2e17, 422)):
            told = await client.post("/v1/outcomes", {"items": [{**about, "taken": taken}]})
            assert told.status_code == status, told.text
            assert status != 201 or told.json()["items"][0]["followed"] is True

    run(tmp_path, go)


@pytest.mark.parametrize(
    "path",
    ["/decisions?plna=orders", "/decisions?plan=orders&plan=other", "/series/A?plna=orders", "/series/A?plan=a&plan=b",
     "/log/export?form=2", "/log/export?from=1&from=2"],
)  # fmt: skip
def test_a_parameter_that_is_misspelt_or_there_twice_is_refused(tmp_path: Path, path: str) -> None:
    async def go(client: Client) -> None:
        await one(client)
        told = await client.get(f"/v1{path}")
        assert (told.status_code, told.json()["code"]) == (422, "invalid")

    run(tmp_path, go)


def test_an_export_of_a_log_that_cannot_be_read_is_no_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go(client: Client) -> None:
        await one(client)
        monkeypatch.setattr("ucsearch.service.queries._EXPORTED", 1)
        await client.decide("B")
        whole = await client.get("/v1/log/export")
        assert (whole.status_code, len(whole.text.splitlines())) == (200, 2)
        monkeypatch.setattr(AuditReader, "rows", _no_space)
        told = await client.get("/v1/log/export")
        assert (told.status_code, told.json()["code"]) == (503, "audit_unavailable")

    run(tmp_path, go)


def test_users_whom_a_proxy_names_are_signed_with_their_names(tmp_path: Path) -> None:
    config = (
        CONFIG + '[server]\nproxy_user_header = "X-Remote-User"\nproxies = ["127.0.0.1"]\nproxy_role = "operator"\n'
    )
    path = "/v1/plans/orders/"

    async def go() -> None:
        async with running(tmp_path, config) as client:

            async def act(what: str, name: bytes) -> httpx.Response:
                headers = [(b"x-remote-user", name), (b"idempotency-key", (what + name[:9].hex()).encode()),
                           (b"content-type", b"application/json")]  # fmt: skip
                return await client.http.post(path + what, content=b'{"why": "a test"}', headers=headers)

            for name in ("Łukasz Żak", "jürgen@example.com", "x" * 254):
                told = await act("pause", name.encode())
                assert (told.status_code, told.json().get("who")) == (201, f"proxy:{name}")
                assert (await act("resume", name.encode())).status_code == 201
            # Not said in UTF-8, invisible, nobody, or longer than what can be kept: nobody is guessed at.
            for odd in (b"j\xfcrgen", "a\u0085b".encode(), b" ", b"", b"x" * 255):
                assert (await act("pause", odd)).status_code == 401

    asyncio.run(go())
