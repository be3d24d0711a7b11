"""The monitor in the service: trips stop releases, people and probation arm again, the verifier derives it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.service.console_kit import DRIFTS, EVIL, RAMPED, Person, fill
from tests.service.console_kit import WATCHED as LIMITED
from tests.service.kit import CONFIG, START, Client, Clock, running
from ucsearch.monitor import Monitor, Settings, rank_of
from ucsearch.records.canonical import seal
from ucsearch.records.log import AuditLog, AuditReader
from ucsearch.service.writer.plan_state import journal_of
from ucsearch.verify import verify_log

WATCHED = (
    CONFIG
    + """
[plan.monitor]
within = 20
alpha = 0.5
calm = 10.0
probation = 3
"""
)
PLAN_DAY = 'period = "day"\n'


def members(n: int = 50, level: float = 10.0) -> list[list[float]]:
    return [[level + 0.1 * j, level + 0.1 * j, level] for j in range(n)]


async def day(client: Client, clock: Clock, value: float, *series: str, model: str = "m1") -> list[dict[str, Any]]:
    """Decide, wait a day, report."""
    items = [
        {"series": s, "state": {"on_hand": 3.0}, "forecast": {"members": members(), "model": model}} for s in series
    ]
    answer = await client.post("/v1/plans/orders/decisions", {"items": items})
    assert answer.status_code == 200, answer.text
    made = answer.json()["items"]
    clock.now += timedelta(days=1)
    at = clock.now.isoformat()
    told = await client.post(
        "/v1/outcomes", {"items": [{"decision": m["id"], "value": value, "observed_at": at} for m in made]}
    )
    assert told.status_code == 201, told.text
    return made  # type: ignore[no-any-return]


def run(folder: Path, go: Any, **options: Any) -> None:
    from tests.service.kit import PLAN

    clock = Clock()

    async def whole() -> None:
        async with running(folder, WATCHED, PLAN_DAY + PLAN, clock, **options) as client:
            await go(client, clock)

    asyncio.run(whole())


async def until_tripped(client: Client, clock: Clock, *series: str) -> int:
    for n in range(30):
        made = await day(client, clock, 99.0, *series)
        if made[0]["reason"] == "calibration":
            return n
    raise AssertionError("it did not trip")


def test_misses_trip_the_monitor_and_releases_stop_until_a_person_arms_it_again(tmp_path: Path) -> None:
    async def go(client: Client, clock: Clock) -> None:
        assert (await day(client, clock, 12.0, "A", "B"))[0]["monitor"]["state"] == "armed"
        await until_tripped(client, clock, "A", "B")
        made = await day(client, clock, 12.0, "A", "B")
        assert [(m["outcome"], m["reason"], m["monitor"]["state"]) for m in made] == [
            ("FALLBACK", "calibration", "tripped")
        ] * 2
        figures = dict(line.rsplit(" ", 1) for line in (await client.metrics()).splitlines())
        assert float(figures['ucsearch_monitor_evidence{plan="orders"}']) >= 40.0
        assert float(figures['ucsearch_monitor_limit{plan="orders"}']) == 40.0
        assert float(figures['ucsearch_monitor_tripped{plan="orders"}']) == 2.0
        assert float(figures['ucsearch_outcomes_overdue{plan="orders"}']) == 0.0
        found = (await client.get("/v1/monitors/orders")).json()
        assert found["state"] == "tripped"
        assert found["pool"]["about"] in ("spread too narrow", "forecasts too low")
        same = await client.post("/v1/monitors/orders/rearm", {"why": "try again"}, role="admin")
        assert (same.status_code, same.json()["code"]) == (422, "not_allowed")
        await day(client, clock, 12.0, "A", "B", model="m2")
        assert all(s["since"] and s["next"] for s in [found["pool"], *found["streams"]])
        other = await client.post("/v1/monitors/orders/rearm", {"why": "a new model"}, role="admin")
        assert other.status_code == 201, other.text
        assert other.json()["items"][0]["series"] == ""
        twice = await client.post("/v1/monitors/orders/rearm", {"why": "a new model"}, role="admin")
        assert twice.status_code == 409
        assert (await day(client, clock, 12.0, "A", "B", model="m2"))[0]["outcome"] == "RELEASED"

    run(tmp_path, go)
    verdicts = list(verify_log(tmp_path / "log/decisions.db"))
    assert [str(v) for v in verdicts if v.status != "valid"] == []


def test_the_monitor_is_the_same_after_a_restart_and_a_series_earns_its_way_back(tmp_path: Path) -> None:
    tokens: dict[str, str] = {}

    async def first(client: Client, clock: Clock) -> None:
        tokens.update(client.tokens)
        for _ in range(12):  # the others are calm, so the pool is too
            await day(client, clock, 12.0, *(f"S{i}" for i in range(6)))
            await day(client, clock, 99.0, "A")
            if (await client.get("/v1/monitors/orders/A")).json()["state"] == "tripped":
                return
        raise AssertionError

    # One stream alone would carry the pool with it: they take turns.
    run(tmp_path, first)
    with AuditReader(tmp_path / "log/decisions.db") as log:
        before = journal_of(log).plans["orders"].monitor.statuses()

    async def second(client: Client, clock: Clock) -> None:
        clock.now = START + timedelta(days=400)
        assert client.service.plan_states.journal.plans["orders"].monitor.statuses() == before
        if before[0].tripped:
            body = {"why": "the pool is a person's", "accept": True}
            assert (await client.post("/v1/monitors/orders/rearm", body, role="admin")).status_code == 201
        for _ in range(3):
            await day(client, clock, 12.0, "A")
        assert (await client.get("/v1/monitors/orders/A")).json()["state"] == "armed"
        events = (await client.get("/v1/monitors/orders")).json()["events"]
        assert [e["event"] for e in events if e["series"] == "A"] == ["rearmed", "tripped"]

    run(tmp_path, second, tokens=tokens)
    assert {v.status for v in verify_log(tmp_path / "log/decisions.db")} == {"valid"}


def test_a_series_that_has_tripped_leaves_the_pool_and_the_verifier_says_the_same(tmp_path: Path) -> None:
    """`drift` of a calm series is the pool's: a pool that kept the bad one would be another figure."""
    hours, seen = 20, list[float]()

    async def go() -> None:
        async with running(tmp_path, LIMITED, RAMPED) as client:
            await fill(client, hours)
            monitor = client.service.plan_states.journal.plans["orders"].monitor
            assert monitor.tripped() == (DRIFTS,)
            seen.append(monitor.status().evidence)

    asyncio.run(go())
    alone, paths = Monitor(Settings(max_undercoverage=0.035)), [8.0 + 0.1 * (j - 30) for j in range(60)]
    for _ in range(hours - 1):  # the last period is not over
        alone.period([(DRIFTS, *rank_of(paths, 30.0)), (EVIL, *rank_of(paths, 8.0))])
    assert alone.has_tripped(DRIFTS)
    assert seen == [alone.status().evidence]
    assert {v.status for v in verify_log(tmp_path / "log/decisions.db")} == {"valid"}


def test_one_form_arms_everything_again_that_is_ticked(tmp_path: Path) -> None:
    async def go(client: Client, clock: Clock) -> None:
        for _ in range(8):
            await day(client, clock, 99.0, "A", "B")
        assert set(client.service.plan_states.journal.plans["orders"].monitor.tripped()) == {"", "A", "B"}
        person = Person(client)
        await person.login("admin")
        ticked = {f"stream:{name}": "yes" for name in ("", "A", "B")}
        form = "/console/monitor/orders/rearm"
        page = await person.send(form, "/console/monitor", why="another shop", accept="yes", **ticked)
        assert "Armed again." in page.text
        assert client.service.plan_states.journal.plans["orders"].monitor.tripped() == ()

    run(tmp_path, go)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("decision", lambda r: r["gate"]["calibration"].update(drift=0.5)),
        ("outcome", lambda r: r.update(rank=[0.4, 0.5])),
        ("outcome", lambda r: r.update(observed_at="2026-03-02T06:00:00+00:00")),
        ("monitor", lambda r: r.update(evidence=r["evidence"] * 2.0)),
        ("monitor", lambda r: r.update(series="B")),
    ],
)
def test_the_verifier_finds_what_does_not_follow(tmp_path: Path, kind: str, change: Any) -> None:
    async def go(client: Client, clock: Clock) -> None:
        await until_tripped(client, clock, "A")

    run(tmp_path, go)
    with AuditReader(tmp_path / "log/decisions.db") as log:
        rows = [(row.record, log.blobs_of(row)) for row in log]
    places = [i for i, (r, _) in enumerate(rows) if r["kind"] == kind and r.get("event") != "armed"]
    forged = json.loads(json.dumps(rows[places[-1]][0]))
    change(forged)
    forged.pop("id")
    with AuditLog(tmp_path / "forged.db") as log:
        for i, (record, blobs) in enumerate(rows):
            if i == places[-1]:
                log.append(seal(forged), blobs)
            elif record["kind"] != "outcome" or i < places[-1]:
                log.append(record, blobs)
    assert "invalid" in {v.status for v in verify_log(tmp_path / "forged.db")}


def test_a_monitor_without_reports_is_starved(tmp_path: Path) -> None:
    from tests.service.kit import PLAN

    clock = Clock()
    config = WATCHED + "max_overdue = 1.0\ngrace_s = 3600.0\n"

    async def whole() -> None:
        async with running(tmp_path, config, PLAN_DAY + PLAN, clock) as client:
            for n in range(4):
                answer = await client.decide("A", members=50)
                made = answer.json()["items"][0]
                assert made["reason"] == ("none" if n < 3 else "calibration"), n
                clock.now += timedelta(days=1)
            assert "Report what came" in made["sentence"]
            assert "Recalibrate" not in made["sentence"]
            assert (await client.get("/v1/monitors/orders")).json()["overdue"] >= 2

    asyncio.run(whole())


def test_a_series_that_nobody_decided_has_no_monitor(tmp_path: Path) -> None:
    """A name that is misspelt would look like a series whose forecasts are good."""

    async def go() -> None:
        async with running(tmp_path, WATCHED) as client:
            await client.decide("A")
            found = await client.get("/v1/monitors/orders/A")
            assert (found.status_code, found.json()["state"], found.json()["outcomes"]) == (200, "armed", 0)
            told = await client.get("/v1/monitors/orders/a")
            assert (told.status_code, told.json()["code"]) == (404, "not_found")
            assert (await client.get("/v1/monitors/orders/")).json()["series"] == ""  # all together

    asyncio.run(go())
