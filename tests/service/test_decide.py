"""Requests in, decisions out: answers, order, idempotency."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from tests.service.kit import PLAN, body, item, make_folder, running
from ucsearch.planner import decide_cases
from ucsearch.planner.settings import parse_settings
from ucsearch.records.log import AuditReader


def test_answers_are_in_the_log_in_the_order_of_the_items(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            answer = await client.decide("B", "A", "C")
            assert answer.status_code == 200, answer.text
            items = answer.json()["items"]
            assert [i["series"] for i in items] == ["B", "A", "C"]
            with AuditReader(tmp_path / "log/decisions.db") as log:
                for n, found in enumerate(items, 1):
                    row = log.get(n)
                    assert (found["seq"], found["id"], found["head"]) == (n, row.id, row.head)
                    assert row.record["plan"] == "orders"
                    assert row.record["request"]["by"] == "the agent"
                assert log.verify().ok
            listed = (await client.get("/v1/decisions?limit=2")).json()
            assert [i["series"] for i in listed["items"]] == ["C", "A"]
            rest = (await client.get(listed["next"])).json()
            assert [i["series"] for i in rest["items"]] == ["B"]
            assert rest["next"] is None

    asyncio.run(go())


def test_the_service_decides_as_the_library_does(tmp_path: Path) -> None:
    async def go() -> list[dict[str, object]]:
        async with running(tmp_path) as client:
            return (await client.decide("A", "B", on_hand=1.0)).json()["items"]  # type: ignore[no-any-return]

    found = asyncio.run(go())
    rows = [
        {"series": i["series"], **i["state"], "forecast": i["forecast"]} for i in body("A", "B", on_hand=1.0)["items"]
    ]
    expected = decide_cases(parse_settings(PLAN.encode()), rows)
    assert [(f["outcome"], f["action"], f["order"], f["sentence"]) for f in found] == [
        (e["outcome"], e["action"], e["order"], e["sentence"]) for e in expected
    ]


def test_the_same_key_gives_the_same_bytes_before_and_after_a_restart(tmp_path: Path) -> None:
    tokens = make_folder(tmp_path)

    async def go(key: str, level: float) -> tuple[int, bytes]:
        async with running(tmp_path, tokens=tokens) as client:
            first = await client.decide("A", key=key, level=level)
            second = await client.decide("A", key=key, level=level)
            if first.status_code == 200:
                assert first.content == second.content
            return first.status_code, first.content

    one = asyncio.run(go("k", 4.0))
    assert one[0] == 200
    assert asyncio.run(go("k", 4.0)) == one
    assert asyncio.run(go("k", 5.0))[0] == 422
    with AuditReader(tmp_path / "log/decisions.db") as log:
        assert log.count() == 1


def test_64_equal_requests_at_once_are_one_row(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            found = await asyncio.gather(*(client.decide("A", key="same") for _ in range(64)))
            assert {r.status_code for r in found} == {200}
            assert len({r.content for r in found}) == 1
            others = await asyncio.gather(*(client.decide(f"S{i % 4}", key=f"other-{i}") for i in range(64)))
            assert {r.status_code for r in others} == {200}
            assert sorted(r.json()["items"][0]["seq"] for r in others) == list(range(2, 66))

    asyncio.run(go())
    with AuditReader(tmp_path / "log/decisions.db") as log:
        assert log.count() == 65
        assert log.verify().ok


def test_a_key_at_work_with_another_body_does_not_refuse_whoever_it_belongs_to(tmp_path: Path) -> None:
    """What is recorded under a key decides, not what happens to be at work when it is asked again."""
    held, go_on = threading.Event(), threading.Event()

    async def go() -> None:
        async with running(tmp_path) as client:
            first = await client.decide("A", key="mine")
            client.service.writer.call(lambda _: (held.set(), go_on.wait(20.0)))
            await asyncio.to_thread(held.wait, 20.0)
            other = asyncio.create_task(client.decide("A", key="mine", level=5.0))
            await asyncio.sleep(0.1)
            again = asyncio.create_task(client.decide("A", key="mine"))
            await asyncio.sleep(0.1)
            go_on.set()
            assert ((await other).status_code, (await other).json()["code"]) == (422, "key_reused")
            assert ((await again).status_code, (await again).content) == (200, first.content)

    asyncio.run(go())


def test_one_bad_item_refuses_its_request_and_no_other(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            bad = {"items": [item("A"), {**item("B"), "state": {"on_hand": 3.0, "shelf": 7.0}}]}
            answers = await asyncio.gather(
                client.decide("C"), client.post("/v1/plans/orders/decisions", bad), client.decide("D")
            )
            assert [a.status_code for a in answers] == [200, 422, 200]
            assert "shelf" in answers[1].json()["where"][0]

    asyncio.run(go())
    with AuditReader(tmp_path / "log/decisions.db") as log:
        assert log.count() == 2


def test_refusals_of_both_kinds_come_in_order_page_by_page(tmp_path: Path) -> None:
    """A refused forecast and a refused state."""
    ways = ({"forecast": {"members": [[5.0]]}}, {"state": {"on_hand": -1.0, "open_orders": [0.0]}}, {})

    async def go() -> None:
        async with running(tmp_path) as client:
            made = [{**item(f"S{n}"), **ways[n % 3]} for n in range(12)]
            answers = [(await client.post("/v1/plans/orders/decisions", {"items": [one]})).json() for one in made]
            found = [answer["items"][0] for answer in answers]
            assert {x["reason"] for x in found} == {"invalid_trace", "none"}
            wanted = [x["id"] for x in reversed(found) if x["reason"] != "none"]
            for more in ("", "&plan=orders", "&limit=3"):
                seen, address = list[str](), f"/v1/decisions?kind=refusal{more}"
                while address:
                    page = (await client.get(address)).json()
                    seen, address = seen + [x["id"] for x in page["items"]], page["next"]
                assert seen == wanted, more
            held = (await client.get("/v1/decisions?kind=refusal&outcome=HOLD")).json()["items"]
            assert [x["id"] for x in held] == [x["id"] for x in reversed(found) if x["outcome"] == "HOLD"]

    asyncio.run(go())


def test_times_of_a_forecast_are_times(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            for name in ("issued", "cutoff"):
                for said in ("yesterday", "9999-01-01T00:00:00Z", "2024-13-01", ""):
                    one = item("A")
                    one["forecast"] = {**one["forecast"], name: said}
                    answer = await client.post("/v1/plans/orders/decisions", {"items": [one]})
                    assert answer.status_code == 422
                    assert (
                        f"items[0].forecast.{name}: saw {said!r}, expected a date or time" in answer.json()["where"][0]
                    )

    asyncio.run(go())
