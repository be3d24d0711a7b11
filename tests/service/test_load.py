"""Requests to decide under load: doubled keys are found, refusals come early, bugs stay inside."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from tests.service.kit import CONFIG, body, open_service, running
from ucsearch.service.bodies import read_body
from ucsearch.service.errors import ApiProblem
from ucsearch.service.schemas import DecideBody

RICH = {
    "items": [
        {
            "series": "a:b", "state": {"on_hand": 3, "label": "x:y"},
            "forecast": {
                "quantiles": {"0.1": [1, 2.5], "0.9": [3, None]}, "issued": "2026-01-01T00:00:00Z", "model": "m:1",
            },
        },
        {"series": "Ü", "state": {}, "forecast": {"members": [[1e-9, 2e12]], "cutoff": "2026-01-01T00:00:00Z"}},
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"series": "a:b"', '"series": "a:b", "series": "c"'),
        ('"on_hand": 3', '"on_hand": 3, "on_hand": 3'),
        ('"0.1": [1, 2.5]', '"0.1": [1, 2.5], "0.1": [1, 2.5]'),
        ('"items":', '"items": [], "items":'),
        ('"model": "m:1"', '"model": "m\\u003a1", "model": "m:1"'),  # a colon that the bytes do not show
        ('"model": "m:1"', '"model": "m\\u003a1", "issued": "z"'),
        ('"series": "Ü"', '"series": "Ü", "series": "::"'),
    ],
)
def test_a_key_that_is_there_twice_is_found(old: str, new: str) -> None:
    raw = json.dumps(RICH, ensure_ascii=False).replace(old, new, 1).encode()
    with pytest.raises(ApiProblem) as caught:
        read_body(DecideBody, raw, 500)
    assert caught.value.code == "not_json"


def test_who_would_wait_too_long_is_told_at_once_and_a_pause_gets_through(tmp_path: Path) -> None:
    limits = "[limits]\nbatch_items = 2\nqueue_items = 50\nqueue_s = 0.1\n[[plan]]"

    async def go() -> None:
        async with running(tmp_path, CONFIG.replace("[[plan]]", limits)) as client:
            writer = client.service.writer
            writer.queue.pace_s = 1.0
            held = writer.call(lambda _: time.sleep(0.5))
            await asyncio.sleep(0.05)
            first = [asyncio.create_task(client.decide(f"S{i}")) for i in range(2)]
            await asyncio.sleep(0.1)
            late = await client.decide("late")
            assert (late.status_code, late.json()["code"]) == (503, "queue_full")
            assert "2 items are not answered, which takes 2 s" in late.json()["detail"]
            assert late.headers["retry-after"] == "2"
            paused = await client.post("/v1/plans/orders/pause", {"why": "too much of it"}, role="operator")
            assert paused.status_code == 201
            assert [(await f).status_code for f in first] == [200, 200]
            held.result()
            writer.queue.pace_s = 0.0
            assert (await client.decide("later")).status_code == 200

    asyncio.run(go())


def test_a_bug_while_deciding_is_told_to_the_log_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            monkeypatch.setattr(client.service, "plan", lambda _: 1 / 0)
            found = await client.decide("A")
            assert (found.status_code, found.json()["code"]) == (500, "internal")
            assert "division" not in found.text
            assert found.headers["x-request-id"] == found.json()["request"]

    asyncio.run(go())


def test_the_endpoint_is_the_same_for_other_methods_and_odd_plans(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            assert (await client.get("/v1/plans/orders/decisions")).status_code == 405
            assert (await client.post("/v1/plans/%6Frders/decisions", body("A"))).status_code == 200
            assert (await client.post("/v1/plans/a%2Fb/decisions", body("A"))).status_code == 404
            assert (await client.post("/v1/plans//decisions", body("A"))).status_code == 404
            counted = client.service.metrics.text().decode()
            assert 'ucsearch_http_requests_total{code="200",route="/v1/plans/{plan}/decisions"} 1.0' in counted
            assert 'code="405",route="/v1/plans/{plan}/decisions"' in counted

    asyncio.run(go())


def test_a_service_keeps_what_its_batches_have_in_common_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ucsearch.planner.decide import in_memory

    monkeypatch.setattr(in_memory, "_KEPT", 3)

    async def go() -> None:
        async with running(tmp_path) as client:
            for i in range(8):
                one = body("A")
                one["items"][0]["state"]["holding"] = 1.0 + i
                found = await client.post("/v1/plans/orders/decisions", one)
                assert found.json()["items"][0]["outcome"] == "RELEASED", found.text
            assert len(client.service.plans["orders"].known._kinds) <= 4

    asyncio.run(go())
    service = open_service(tmp_path)
    service.start()
    service.stop()


def test_whoever_is_answered_may_ask_again_at_once(tmp_path: Path) -> None:
    """As many clients as a batch holds, each asking again with its answer: what was answered counts no more."""
    limits = "[limits]\nbatch_items = 8\nqueue_s = 1e-9\nper_agent = 1e6\n[[plan]]"

    async def go() -> None:
        async with running(tmp_path, CONFIG.replace("[[plan]]", limits)) as client:

            async def one(n: int) -> list[int]:
                return [(await client.decide(f"S{n}")).status_code for _ in range(12)]

            found = await asyncio.gather(*(one(n) for n in range(8)))
            assert {code for codes in found for code in codes} == {200}

    asyncio.run(go())
