"""What the monitor says follows from the log alone: whatever service.toml says by now, whatever else is decided."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from datetime import date, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.service.console_kit import Person
from tests.service.kit import CONFIG, PLAN, Client, Clock, make_folder, open_service, running
from tests.service.test_monitor import PLAN_DAY, WATCHED, day, members, until_tripped
from ucsearch.cli import app
from ucsearch.monitor.bets import ADVICE
from ucsearch.planner.monitor import job as monitor_job
from ucsearch.planner.monitor.job import run_watch
from ucsearch.planner.monitor.rotate import rotate_log
from ucsearch.records.log import AuditReader
from ucsearch.service.writer import plan_state
from ucsearch.verify import verify_log

LOG = "log/decisions.db"


def wrong(folder: Path) -> list[str]:
    return [str(v) for v in verify_log(folder / LOG) if v.status != "valid"]


def test_a_monitor_that_was_taken_out_of_the_configuration_leaves_a_log_that_verifies(tmp_path: Path) -> None:
    """Outcomes of its decisions still come, and may even trip it: nothing is stopped by that, but it is recorded."""
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock) as client:
            await day(client, clock, 12.0, "A", "B")
            tokens = client.tokens
            last = (await client.decide("A", members=50)).json()["items"][0]["id"]
        (tmp_path / "service.toml").write_text(CONFIG)
        async with running(tmp_path, clock=clock, tokens=tokens) as client:
            for _ in range(8):
                made = await day(client, clock, 99.0, "A", "B")
            assert made[0]["reason"] == "none"
            assert made[0]["monitor"] == {"state": "off", "evidence": None}
            assert (await client.get("/v1/monitors/orders")).json()["state"] == "off"
            assert (await client.get("/v1/monitors/orders/A")).status_code == 404
            assert (await client.get("/v1/series/A")).json()["monitor"] is None
            figures = await client.metrics()
            assert 'ucsearch_monitor_tripped{plan="orders"}' not in figures
        # The plan itself is gone, one of its outcomes still comes.
        (tmp_path / "service.toml").write_text(CONFIG.replace('"orders"', '"others"'))
        async with running(tmp_path, clock=clock, tokens=tokens) as client:
            items = [{"decision": last, "value": 12.0, "observed_at": clock.now.isoformat()}]
            assert (await client.post("/v1/outcomes", {"items": items})).status_code == 201
        (tmp_path / "service.toml").write_text(WATCHED)
        async with running(tmp_path, clock=clock, tokens=tokens) as client:
            assert (await day(client, clock, 12.0, "A"))[0]["reason"] == "calibration"

    asyncio.run(go())
    assert wrong(tmp_path) == []
    with AuditReader(tmp_path / LOG) as log:
        events = [row.record["event"] for row in log.list(kind="monitor", limit=100)]
    assert events[:2] == ["armed", "tripped"]
    assert events.count("armed") == 1


async def forecast(client: Client, series: str, model: str) -> None:
    item = {"series": series, "state": {"on_hand": 3.0}, "forecast": {"members": members(), "model": model}}
    assert (await client.post("/v1/plans/orders/decisions", {"items": [item]})).status_code == 200


async def rearmed(client: Client, **body: Any) -> tuple[int, str]:
    told = await client.post("/v1/monitors/orders/rearm", {"why": "a new model", **body}, role="admin")
    return told.status_code, told.json().get("detail", "")


@pytest.mark.parametrize("stream", ["", "B"])
def test_models_are_compared_within_a_series(tmp_path: Path, stream: str) -> None:
    """Series may have models of their own: that another one was decided last is no new model."""
    clock = Clock()
    body = {"streams": [stream]}
    of = f" of {stream}" if stream else ""

    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock) as client:
            for _ in range(30):
                for name in ("A", "B"):
                    await day(client, clock, 99.0, name, model=f"of {name}")
                if client.service.plan_states.journal.status("orders", stream).tripped:
                    break
            for name in ("B", "A", "B", "A", "new"):
                await forecast(client, name, f"of {name}")
                assert await rearmed(client, **body) == (
                    422, f"the forecasts' model{of} is the one that tripped; another one, or accept: true, is needed",
                )  # fmt: skip
            await forecast(client, "B", "of B, refitted")
            await forecast(client, "new", "of new")
            assert (await rearmed(client, **body))[0] == 201

    asyncio.run(go())
    assert wrong(tmp_path) == []


def test_a_new_model_is_known_in_the_next_file_of_a_log(tmp_path: Path) -> None:
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock) as client:
            await until_tripped(client, clock, "A", "B")
            for _ in range(2):
                rotate_log(tmp_path / LOG, at=clock.now, by="a person", why="a new year")
            same = "the forecasts' model is the one that tripped; another one, or accept: true, is needed"
            assert await rearmed(client, streams=[""]) == (422, same)
            await forecast(client, "A", "m1")
            assert await rearmed(client, streams=[""]) == (422, same)
            await forecast(client, "A", "m2")
            assert (await rearmed(client, streams=[""]))[0] == 201
            tokens = client.tokens
        for name in ("decisions.db", "decisions.0002.db"):  # moved away
            (tmp_path / "log" / name).unlink()
        newest = WATCHED.replace(LOG, "log/decisions.0003.db")
        (tmp_path / "service.toml").write_text(newest)
        async with running(tmp_path, newest, PLAN_DAY + PLAN, clock, tokens=tokens) as client:
            assert await rearmed(client, streams=["A"]) == (
                422, "when it tripped is not in the files that are here; accept: true is needed",
            )  # fmt: skip
            assert (await rearmed(client, streams=["A"], accept=True))[0] == 201

    asyncio.run(go())


OVERDUE = WATCHED + "max_overdue = 0.0\ngrace_s = 3600.0\n"


async def decided(client: Client, series: str = "A", **forecast: Any) -> dict[str, Any]:
    item = {"series": series, "state": {"on_hand": 3.0}, "forecast": {"members": members()} | forecast}
    answer = await client.post("/v1/plans/orders/decisions", {"items": [item]})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"][0]  # type: ignore[no-any-return]


async def report(client: Client, clock: Clock, id: str, *steps: int) -> None:
    at = clock.now.isoformat()
    items = [{"decision": id, "step": step, "value": 12.0, "observed_at": at} for step in steps or (1,)]
    assert (await client.post("/v1/outcomes", {"items": items})).status_code == 201


async def overdue(client: Client) -> int:
    return int((await client.get("/v1/monitors/orders")).json()["overdue"])


@pytest.mark.parametrize("cutoff", [True, False])
@pytest.mark.parametrize("about", [0, 1])
def test_decisions_of_one_period_wait_for_one_outcome(tmp_path: Path, about: int, cutoff: bool) -> None:
    """Decided again at noon: a report about either decision tells what came of that day."""
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, OVERDUE, PLAN_DAY + PLAN, clock) as client:
            tokens = client.tokens
            for _ in range(3):
                known = {"cutoff": f"{clock.now.date()}T00:00:00+00:00"} if cutoff else {}
                made = [await decided(client, **known)]
                clock.now += timedelta(hours=4)
                made.append(await decided(client, **known))
                assert [m["reason"] for m in made] == ["none", "none"]
                clock.now += timedelta(hours=20)
                await report(client, clock, made[about]["id"])
            clock.now += timedelta(days=2)
            assert await overdue(client) == 0
        async with running(tmp_path, OVERDUE, PLAN_DAY + PLAN, clock, tokens=tokens) as client:
            assert await overdue(client) == 0
            made = [await decided(client)]
            clock.now += timedelta(days=2)
            assert await overdue(client) == 1
            assert (await decided(client))["reason"] == "calibration"

    asyncio.run(go())


def test_every_step_of_the_target_is_waited_for(tmp_path: Path) -> None:
    """With steps missing nothing is ranked: a monitor of sums that hears of first steps only is starved too."""
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, OVERDUE + "lags = 2\n", PLAN_DAY + PLAN, clock) as client:
            made = await decided(client)
            clock.now += timedelta(days=1, hours=2)
            assert await overdue(client) == 1
            await report(client, clock, made["id"])
            assert await overdue(client) == 0
            clock.now += timedelta(days=1)
            assert await overdue(client) == 1
            assert (await decided(client))["reason"] == "calibration"
            await report(client, clock, made["id"], 2)
            assert await overdue(client) == 0

    asyncio.run(go())


def test_what_is_overdue_is_the_same_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps were reported of each decision, and in whichever file of the log."""
    monkeypatch.setattr(plan_state, "_LOOK_BACK", 10)
    monkeypatch.setattr(plan_state, "_PAGE", 3)
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, OVERDUE, PLAN_DAY + PLAN, clock) as client:
            tokens = client.tokens
            for n in range(12):
                made = await decided(client, f"S{n % 2}")
                clock.now += timedelta(days=1)
                if n not in (1, 5, 8):
                    await report(client, clock, made["id"], 1, 2, 3)
                if n == 6:
                    rotate_log(tmp_path / LOG, at=clock.now, by="a person", why="a new year")
            clock.now += timedelta(days=2)
            assert await overdue(client) == 3
        async with running(tmp_path, OVERDUE, PLAN_DAY + PLAN, clock, tokens=tokens) as client:
            assert await overdue(client) == 2  # entries of the first two days are not looked at any more
            assert client.service.plan_states.overdue("orders", clock.now, "S0") == 1

    asyncio.run(go())


def test_offline_the_same_is_seen_in_all_files_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watched as the plan is, over files that follow each other, with sums whose last digit depends on their order."""
    clock = Clock()
    paths = [[0.1, 0.2, 0.3]] * 20 + [[0.3, 0.2, 0.1]] * 20 + [[0.5, 0.5, 0.5]] * 20
    config = WATCHED.replace("within = 20", "within = 200") + 'lags = 3\nwatch = "bias"\nmax_undercoverage = 0.017\n'

    async def go() -> dict[str, float]:
        async with running(tmp_path, config, PLAN_DAY + PLAN, clock) as client:
            for n in range(9):
                cutoff = f"{clock.now.date()}T00:00:00+00:00"
                made = [(await decided(client, s, members=paths, cutoff=cutoff))["id"] for s in ("A", "B")]
                if n in (3, 5):
                    rotate_log(tmp_path / LOG, at=clock.now, by="a person", why="a new year")
                clock.now += timedelta(days=1)
                values = (0.1, 0.2, 0.3) if n % 2 else (0.5, 0.5, 0.6)
                items = [
                    {"decision": id, "step": h + 1, "value": x, "observed_at": clock.now.isoformat()}
                    for id in made for h, x in enumerate(values)
                ]  # fmt: skip
                assert (await client.post("/v1/outcomes", {"items": items})).status_code == 201
            statuses = client.service.plan_states.journal.plans["orders"].monitor.statuses()
            return {s.series: s.evidence for s in statuses if s.series}

    online = asyncio.run(go())
    for name in ("decisions.db", "decisions.0002.db", "decisions.0003.db"):
        found = run_watch(tmp_path / "log" / name)
        assert found.settings.watch == "bias"
        assert {s.series: s.status.evidence for s in found.series} == pytest.approx(online, rel=1e-12)
    watched: list[Any] = []
    monkeypatch.setattr(monitor_job, "run_watch", lambda *a, **how: watched.append(how) or run_watch(*a, **how))
    for more in ([], ["--steps", "1"]):
        out = CliRunner().invoke(app, ["monitor", "--set", f"files.log={tmp_path / LOG}", *more])
        assert out.exit_code == 0, out.output
    as_logged, by_step = (how["settings"] for how in watched)
    assert (as_logged.lags, as_logged.limit, as_logged.calm) == (3, 400.0, 10.0)
    assert by_step == dataclasses.replace(as_logged, lags=1)


def sales(path: Path, days: int = 200, change: int = 1_000) -> Path:
    rng = np.random.default_rng(11)
    lines = ["series,date,demand"]
    for name in ("A", "B", "C"):
        for n in range(days):
            wild = 1.0 if n < change else 4.0
            lines.append(f"{name},{date(2025, 1, 1) + timedelta(n)},{max(0.0, rng.normal(20.0, 3.0 * wild)):.1f}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("paths", "days", "change", "said"),
    [
        (60, 200, 1_000, "the pool did not trip"),
        (60, 400, 200, "the pool tripped after"),
        (60, 100, 1_000, "outcomes that could be ranked"),
        (49, 200, 1_000, "49 paths of the forecaster"),  # of which the service would rank none
    ],
)
def test_arming_is_judged_by_what_the_service_would_see(
    tmp_path: Path, paths: int, days: int, change: int, said: str
) -> None:
    model = f'[forecaster]\nname = "ridge_paths"\npaths = {paths}\n'
    make_folder(tmp_path, CONFIG + "[plan.monitor]\nlags = 2\n", PLAN_DAY + PLAN + model)
    given = ["service", "arm", str(tmp_path), "orders", "--sales", str(sales(tmp_path / "sales.csv", days, change))]
    out = CliRunner().invoke(app, given)
    assert said in out.output + str(out.exception)
    assert (out.exit_code == 0) == (said == "the pool did not trip")
    given[3] = "others"
    assert CliRunner().invoke(app, given).exit_code == 2  # a wrong word is no verdict


@pytest.mark.parametrize(
    ("monitor", "gate", "tolerated"),
    [
        ("", "", 0.035),
        ("", "max_undercoverage = 0.017\n", 0.017),
        ("max_undercoverage = 0.0\n", "max_undercoverage = 0.017\n", 0.0),
    ],
)
def test_what_is_tolerated_is_what_the_gate_tolerates(
    tmp_path: Path, monitor: str, gate: str, tolerated: float
) -> None:
    make_folder(tmp_path, CONFIG + "[plan.monitor]\n" + monitor, PLAN + "[gate]\n" + gate)
    watching = open_service(tmp_path).plans["orders"].watching
    assert watching is not None
    assert watching.max_undercoverage == tolerated


@pytest.mark.parametrize(("limit", "kept"), [(0.0, 0.0), (10.0, 10.0), (40.0, math.nextafter(40.0, 0.0))])
def test_a_gate_may_be_stricter_than_the_monitor(tmp_path: Path, limit: float, kept: float) -> None:
    make_folder(tmp_path, WATCHED, PLAN + f"[gate]\nmax_drift = {limit}\n")
    assert open_service(tmp_path).plans["orders"].settings.gate.max_drift == kept


def test_pages_say_what_has_stopped_and_what_to_do(tmp_path: Path) -> None:
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, OVERDUE.replace("max_overdue = 0.0\n", ""), PLAN_DAY + PLAN, clock) as client:
            person = Person(client)
            await person.login("viewer")
            calm = (await person.look("/console/monitor")).text
            assert "No series has tripped." in calm
            await until_tripped(client, clock, "A", "B")
            await decided(client, "new")
            clock.now += timedelta(days=3)
            page = unescape((await person.look("/console/monitor")).text)
            assert "Nothing of the plan is released" in page
            about = client.service.plan_states.journal.status("orders").about
            assert about == "forecasts too low"
            assert ADVICE[about][1:] in page
            together = 'All series together</span><span>forecasts too low</span><span class="note">since 2026-'
            assert together in page.replace("\n", "")
            assert page.count('<span class="tag bad">tripped</span>') >= 3
            assert "armed again after 3 calm outcomes" in page
            assert "1 outcomes were not reported in time" in page
            # Its own stream is armed, but nothing of it leaves.
            series = (await person.look("/console/series?name=new&plan=orders")).text
            assert "All series together: " in series
            assert "Nothing of the plan is released." in series

    asyncio.run(go())
