"""Clocks that jump, tasks that break, more than can be worked off; figures and the text log."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import CONFIG, PLAN, START, Clock, body, item, make_folder, running
from ucsearch.monitor.journal import period_key
from ucsearch.records.log import AuditReader
from ucsearch.service import queries
from ucsearch.service.observability import JsonLinesFormatter
from ucsearch.service.schemas import Verified
from ucsearch.service.service import Service
from ucsearch.verify import verify_log


def limits(text: str) -> str:
    return CONFIG.replace("[[plan]]", f"[limits]\n{text}\n[[plan]]")


def test_a_clock_that_goes_back_releases_nothing_on_forecasts_from_the_future(tmp_path: Path) -> None:
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, plan=PLAN + "[gate]\nmax_trace_age_s = 3600.0\n", clock=clock) as client:
            issued = START.isoformat()
            found = []
            for hours in (0.5, -2.0, 0.75, 2.0):  # fresh, from the future, fresh, stale
                clock.now = START + timedelta(hours=hours)
                answer = await client.decide("A", issued=issued)
                found.append(answer.json()["items"][0])
            assert [f["reason"] for f in found] == ["none", "stale_trace", "none", "stale_trace"]
            assert [f["seq"] for f in found] == [1, 2, 3, 4]
            # The newest is the last one written, whatever its clock said.
            clock.now = START - timedelta(days=3)
            last = (await client.decide("A", issued=issued)).json()["items"][0]
            assert (await client.get("/v1/series/A")).json()["newest"]["id"] == last["id"]

    asyncio.run(go())
    assert {v.status for v in verify_log(tmp_path / "log/decisions.db")} == {"valid"}


def test_one_batch_has_one_time(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            await client.decide(*(f"S{i}" for i in range(5)))

    asyncio.run(go())
    with AuditReader(tmp_path / "log/decisions.db") as log:
        assert len({row.record["gate"]["now"] for row in log}) == 1


def test_periods_are_of_utc_whatever_summer_time_does() -> None:
    assert period_key("2026-03-29T01:59:00+01:00", "hour") + 1 == period_key("2026-03-29T03:00:00+02:00", "hour")
    assert period_key("2026-10-25T02:30:00+02:00", "hour") + 1 == period_key("2026-10-25T02:30:00+01:00", "hour")
    assert period_key("2026-03-01T23:59:59+00:00", "week") + 1 == period_key("2026-03-02T00:00:00+00:00", "week")
    assert period_key("2026-12-31T23:00:00+00:00", "month") + 1 == period_key("2027-01-01T00:30:00+00:00", "month")


@pytest.mark.parametrize("name", ["raises", "nan", "exits"])
def test_a_broken_task_is_an_outcome_and_other_plans_go_on(tmp_path: Path, name: str) -> None:
    config = CONFIG + f'\n[[plan]]\nname = "broken"\nsettings = "orders.toml"\ntask = "tests.service.broken:{name}"\n'

    async def go() -> None:
        async with running(tmp_path, config) as client:
            entry = {"series": "B", "state": {"level": 3.0}, "forecast": item("B")["forecast"]}
            bad, good = await asyncio.gather(
                client.post("/v1/plans/broken/decisions", {"items": [entry]}), client.decide("A")
            )
            assert bad.status_code == 200, bad.text
            assert bad.json()["items"][0]["reason"] in ("task_error", "fallback_infeasible")
            assert bad.json()["items"][0]["outcome"] != "RELEASED"
            assert good.json()["items"][0]["outcome"] == "RELEASED"

    asyncio.run(go())


def test_a_search_without_end_is_bounded_by_its_nodes_and_other_plans_go_on(tmp_path: Path) -> None:
    config = CONFIG + '\n[[plan]]\nname = "deep"\nsettings = "deep.toml"\n'
    deep = PLAN.replace("depth = 2", "depth = 40\nnode_budget = 500")

    async def go() -> None:
        make_folder(tmp_path)
        (tmp_path / "deep.toml").write_text(deep)
        async with running(tmp_path, config) as client:
            paths = [[4.0 + 0.37 * j + 0.11 * h for h in range(40)] for j in range(5)]
            entry = {**item("B"), "forecast": {"members": paths}}
            bad, good = await asyncio.gather(
                client.post("/v1/plans/deep/decisions", {"items": [entry]}), client.decide("A")
            )
            assert bad.status_code == 200, bad.text
            made = bad.json()["items"][0]
            assert (made["outcome"], made["cause"]) == ("FALLBACK", "not_proved")  # what the nodes allow is no proof
            assert good.json()["items"][0]["outcome"] == "RELEASED"

    asyncio.run(go())


@pytest.mark.parametrize(("task", "action"), [("sound", 0.0), ("pairs", [0.0, 0.0])])
def test_a_task_of_ones_own_is_decided_overridden_and_verified(tmp_path: Path, task: str, action: Any) -> None:
    config = CONFIG + f'\n[[plan]]\nname = "own"\nsettings = "orders.toml"\ntask = "tests.service.broken:{task}"\n'

    async def go() -> None:
        async with running(tmp_path, config) as client:
            entry = {"series": "B", "state": {"level": 3.0}, "forecast": item("B")["forecast"]}
            answer = await client.post("/v1/plans/own/decisions", {"items": [entry]})
            (made,) = answer.json()["items"]
            assert made["outcome"] == "RELEASED", made
            body = {"action": action, "why": "a test", "expects": made["id"]}
            done = await client.post(f"/v1/decisions/{made['id']}/override", body, role="operator")
            assert done.status_code == 201, done.text
            checked = await client.post(f"/v1/decisions/{made['id']}/verify", {}, role="viewer")
            assert checked.json()["status"] == "valid", checked.text

    asyncio.run(go())


def test_more_than_can_be_worked_off_is_refused_and_the_rest_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ucsearch.service.writer.plans import ServicePlan

    real = ServicePlan.decide

    def slow(self: ServicePlan, *arguments: Any) -> Any:
        time.sleep(0.05)
        return real(self, *arguments)

    monkeypatch.setattr(ServicePlan, "decide", slow)

    async def go() -> None:
        async with running(tmp_path, limits("queue_items = 8\nbatch_items = 2")) as client:
            found = await asyncio.gather(*(client.decide(f"S{i}") for i in range(60)))
            codes = [a.status_code for a in found]
            assert set(codes) == {200, 503}
            assert 2 <= codes.count(200) <= 20
            assert {a.json()["code"] for a in found if a.status_code == 503} == {"queue_full"}
            assert all("retry-after" in a.headers for a in found if a.status_code == 503)
            assert (await client.decide("later")).status_code == 200

    asyncio.run(go())
    with AuditReader(tmp_path / "log/decisions.db") as log:
        assert log.verify().ok


def test_a_token_that_asks_too_often_is_429(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, limits("per_token = 3.0")) as client:
            codes = [(await client.get("/v1/plans")).status_code for _ in range(6)]
            assert codes[:3] == [200, 200, 200]
            assert 429 in codes
            assert (await client.get("/v1/plans", role="operator")).status_code == 200

    asyncio.run(go())


def test_too_many_items_members_and_steps_are_413(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, limits("items = 2\nmembers = 5\nsteps = 4\nbody_bytes = 20000")) as client:
            assert (await client.decide("A", "B", "C")).status_code == 413
            assert (await client.decide("A", members=6)).status_code == 413
            long = {**item("A"), "forecast": {"mean": [1.0] * 5, "std": [1.0] * 5}}
            assert (await client.post("/v1/plans/orders/decisions", {"items": [long]})).status_code == 413
            assert (await client.post("/v1/plans/orders/decisions", b" " * 20_001)).status_code == 413
            typed = await client.post("/v1/plans/orders/decisions", body("A"), **{"Content-Type": "text/plain"})
            assert typed.status_code == 415
            zipped = await client.post("/v1/plans/orders/decisions", body("A"), **{"Content-Encoding": "gzip"})
            assert zipped.status_code == 415
            assert (await client.http.delete("/v1/decisions", headers=client.headers("viewer"))).status_code == 405
            assert (await client.get("/v1/nothing")).status_code == 404
            assert (await client.post("/v1/plans/other/decisions", body("A"))).status_code == 404
            assert (await client.get("/v1/decisions?limit=0")).status_code == 422

    asyncio.run(go())


class Kept(logging.Handler):
    """Keeps what one logger says, whoever else listens."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def test_figures_and_the_text_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> str:
        async with running(tmp_path) as client:
            answer = await client.post(
                "/v1/plans/orders/decisions", body("SECRET-SERIES", level=4.0625),
                **{"X-Request-Id": "my-id.7", "traceparent": "00-abc-def-01"},
            )  # fmt: skip
            assert answer.headers["x-request-id"] == "my-id.7"
            bad = await client.post("/v1/plans/orders/decisions", b"{", **{"X-Request-Id": "bad id\t"})
            assert bad.json()["request"] == bad.headers["x-request-id"] != "bad id\t"
            await client.get("/v1/decisions", role="")
            return str(await client.metrics())

    kept, logger = Kept(), logging.getLogger("ucsearch.service")
    monkeypatch.setattr(logger, "handlers", [kept])
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        figures = asyncio.run(go())
    finally:
        logger.setLevel(before)
    for line in (
        'ucsearch_decisions_total{outcome="RELEASED",plan="orders",reason="none"} 1.0',
        'ucsearch_decision_seconds_count{stage="decide"} 1.0', "ucsearch_batch_size_count 1.0",
        "ucsearch_queue_items 0.0", "ucsearch_commit_seconds_count 1.0", "ucsearch_log_entries 1.0",
        "ucsearch_log_bytes", "ucsearch_disk_free_bytes",
        "ucsearch_checkpoint_age_seconds", "ucsearch_auth_failures_total 1.0",
        'ucsearch_http_requests_total{code="200",route="/v1/plans/{plan}/decisions"} 1.0',
    ):  # fmt: skip
        assert line in figures, line
    lines = [json.loads(JsonLinesFormatter().format(record)) for record in kept.records]
    asked = [line for line in lines if line.get("request") == "my-id.7"]
    assert [(a["status"], a["by"], a["traceparent"]) for a in asked] == [(200, "the agent", "00-abc-def-01")]
    text = "\n".join(map(json.dumps, lines))
    assert "ucs_" not in text
    assert "SECRET-SERIES" not in text
    assert "4.0625" not in text


def test_many_who_verify_do_not_take_all_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To verify takes seconds of a plan that is large, and a viewer may ask for it."""
    go_on, begun = threading.Event(), list[str]()

    def slow(self: Service, reader: object, id: str, scope: object) -> Verified:
        begun.append(id)
        assert go_on.wait(60.0)
        return Verified("valid", "", "")

    monkeypatch.setattr(Service, "_verify_now", slow)

    async def go() -> None:
        async with running(tmp_path) as client:
            id = (await client.decide("A")).json()["items"][0]["id"]
            path = f"/v1/decisions/{id}/verify"
            asked = [asyncio.create_task(client.post(path, {}, role="viewer")) for _ in range(30)]
            told = []
            for task in asyncio.as_completed(asked, timeout=30.0):
                told.append(await task)
                if len(told) == 21:
                    break
            assert {(t.status_code, t.json()["code"]) for t in told} == {(503, "queue_full")}
            assert all(int(t.headers["retry-after"]) > 1 for t in told)
            waiting = [task for task in asked if not task.done()]
            assert (len(waiting), len(begun)) == (9, 1)  # one at a time
            assert (await client.decide("B")).status_code == 200
            go_on.set()
            assert [(await task).status_code for task in waiting] == [200] * 9
            assert (await client.post(path, {}, role="viewer")).status_code == 200

    asyncio.run(go())


def test_whoever_waits_too_long_to_verify_is_told(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, limits("request_s = 0.05")) as client:
            async with client.service.verifying:
                told = await client.post(f"/v1/decisions/{'0' * 64}/verify", {}, role="viewer")
            assert (told.status_code, told.json()["code"]) == (503, "queue_full")
            told = await client.post(f"/v1/decisions/{'0' * 64}/verify", {}, role="viewer")
            assert told.status_code == 404

    asyncio.run(go())


def test_who_reads_much_at_once_keeps_nobody_else_from_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes long to show is asked by one token as often as it may: others find a reader free, an export that has
    begun goes on, and who has too many unanswered is told."""
    go_on, begun, real = threading.Event(), list[str](), queries.explain

    def slow(reader: Any, id: str, *arguments: Any) -> Any:
        begun.append(id)
        assert go_on.wait(60.0)
        return real(reader, id, *arguments)

    monkeypatch.setattr(queries, "explain", slow)

    async def go() -> None:
        async with running(tmp_path, limits("per_token = 1000.0")) as client:
            id = (await client.decide("A")).json()["items"][0]["id"]
            path = f"/v1/decisions/{id}/explain"
            asked = [asyncio.create_task(client.get(path)) for _ in range(40)]
            while len(told := [task.result() for task in asked if task.done()]) < 8:
                await asyncio.sleep(0.01)
            assert {(t.status_code, t.json()["code"]) for t in told} == {(429, "too_many")}
            assert len(begun) == 2  # of four readers
            async with asyncio.timeout(10.0):
                assert (await client.get("/v1/decisions", role="operator")).status_code == 200
                assert (await client.get("/v1/log/export", role="admin")).status_code == 200
                assert (await client.decide("B")).status_code == 200
                assert (await client.get("/v1/decisions")).status_code == 429
            go_on.set()
            assert [(await task).status_code for task in asked].count(200) == 32
            assert (await client.get(path)).status_code == 200
            assert client.service._reads == {}

    asyncio.run(go())
