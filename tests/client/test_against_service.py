"""The client against a real service: over a socket, and in this process for asyncio."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.service.console_kit import DRIFTS, EVIL, RAMPED, WATCHED, fill
from tests.service.kit import CONFIG, PLAN, START, make_folder, open_service, running
from ucsearch.client import AsyncClient, Client, Forecast, Item, Outcome, ServiceProblem
from ucsearch.planner.monitor.job import run_watch
from ucsearch.service.run import embedded

MEMBERS = [[8.0 + 0.1 * j + h for h in range(3)] for j in range(60)]


def item(series: str, order: float = 5.0) -> Item:
    cutoff = START.isoformat()
    return Item(series, {"on_hand": 3.0, "open_orders": [order]}, Forecast(members=MEMBERS, cutoff=cutoff, model="m"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str], Path]]:
    folder = tmp_path_factory.mktemp("service")
    tokens = make_folder(folder, '[server]\nbind = "127.0.0.1:0"\n' + WATCHED, RAMPED)
    with embedded(open_service(folder)) as url:
        yield url, tokens, folder


def test_a_day_in_the_life_of_a_client(site: Any) -> None:
    url, tokens, _ = site
    odd = "a/b?c#d ü%2F"
    with Client(url, tokens["agent"]) as agent, Client(url, tokens["operator"]) as operator:
        answers = agent.decide("orders", [item(odd), item("held", order=97.0)], key="morning")
        assert [a.series for a in answers] == [odd, "held"]
        assert [a.outcome for a in answers] == ["RELEASED", "HOLD"]
        assert math.isnan(answers[1].action)
        assert answers[0].monitor == "armed"
        # The same again is the same, to the byte; another body under the key is refused.
        assert agent.decide("orders", [item(odd), item("held", order=97.0)], key="morning") == answers
        with pytest.raises(ServiceProblem) as caught:
            agent.decide("orders", [item(odd)], key="morning")
        assert (caught.value.status, caught.value.code) == (422, "key_reused")
        # What people do.
        with pytest.raises(ServiceProblem) as caught:
            agent.override(answers[1].id, 95.0, "an agent may not")
        assert caught.value.status == 403
        with pytest.raises(ServiceProblem) as caught:
            operator.override(answers[1].id, 40.0, "against the rules")
        assert (caught.value.status, caught.value.code) == (422, "not_allowed")
        assert operator.override(answers[1].id, 95.0, "placed by hand").new
        with pytest.raises(ServiceProblem) as caught:
            operator.override(answers[1].id, 96.0, "without having seen the first one")
        assert (caught.value.status, caught.value.code) == (409, "not_newest")
        assert operator.series("held")["effective"] == 95.0
        seen = operator.series("held")["expects"]
        operator.override(answers[1].id, None, "taken back", expects=seen)
        assert operator.series("held")["effective"] is None
        assert operator.series(odd)["newest"]["id"] == answers[0].id
        # What came.
        when = START + timedelta(hours=1)
        report = [Outcome(answers[0].id, 9.0, when, taken=answers[0].action)]
        assert [r.new for r in agent.outcomes(report, key="evening")] == [True]
        (again,) = agent.outcomes(report)
        assert not again.new
        assert operator.monitors("orders")["plan"] == "orders"
        assert operator.monitors("orders", odd)["outcomes"] == 1
        # Pages, records, pauses.
        operator.pause("orders", "stocktaking")
        assert agent.decide("orders", [item("paused")])[0].reason == "paused"
        operator.resume("orders", "counted")
        listed = [x["id"] for x in operator.decisions(limit=1)]
        assert len(listed) == 3
        assert set(listed) >= {a.id for a in answers}
        assert operator.decision(answers[0].id).startswith(b"{")
        assert operator.verify(answers[0].id)["status"] == "valid"
        assert "order" in operator.explain(answers[0].id)["text"]
        assert operator.checkpoint()["count"] >= 3
        assert [p["name"] for p in operator.plans()["items"]] == ["orders"]


def test_remote_override_sees_what_stands(site: Any) -> None:
    from ucsearch.cli import app

    url, tokens, _ = site
    with Client(url, tokens["agent"]) as agent:
        agent.decide("orders", [item("by hand", order=97.0)])
    for action in ("95", "96"):  # the second one knows of the first
        done = CliRunner().invoke(
            app, ["remote", "--url", url, "override", "by hand", action, "--why", "for a test"],
            env={"UCSEARCH_TOKEN": tokens["operator"]},
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        assert f"{action} is now in force" in done.output


def test_what_the_rules_refuse_is_recorded_by_force_and_marked(site: Any) -> None:
    from ucsearch.cli import app

    url, tokens, _ = site
    with Client(url, tokens["agent"]) as agent:
        agent.decide("orders", [item("forced", order=97.0)])
        words = ["remote", "--url", url, "override", "forced", "40", "--why", "for a test"]
        refused = CliRunner().invoke(app, words, env={"UCSEARCH_TOKEN": tokens["operator"]})
        assert (refused.exit_code, "breaks the rules" in refused.output) == (2, True), refused.output
        assert agent.series("forced")["effective"] is None
        done = CliRunner().invoke(app, [*words, "--force"], env={"UCSEARCH_TOKEN": tokens["operator"]})
        assert done.exit_code == 0, done.output
        found = agent.series("forced")
        assert (found["effective"], found["overrides"][0]["forced"]) == (40.0, True)


def test_a_plan_is_armed_again_by_one_call(tmp_path: Path) -> None:
    tokens = make_folder(tmp_path, '[server]\nbind = "127.0.0.1:0"\n' + WATCHED, RAMPED)
    with (
        embedded(open_service(tmp_path)) as url, Client(url, tokens["agent"]) as agent,
        Client(url, tokens["admin"]) as admin,
    ):  # fmt: skip
        for n in range(40):
            made = agent.decide("orders", [item("A"), item("B")])
            when = START + timedelta(days=n - 60)
            agent.outcomes([Outcome(a.id, 1e6, when) for a in made])
            if admin.monitors("orders")["state"] == "tripped":
                break
        assert admin.rearm("orders", "it was a test", streams=["A"], accept=True).new
        assert {s["series"] for s in admin.monitors("orders")["streams"] if s["state"] == "tripped"} == {"B"}
        assert admin.rearm("orders", "it was a test", accept=True).new
        assert admin.monitors("orders")["state"] == "armed"


def test_a_file_means_the_same_to_the_service_and_to_decide(tmp_path: Path) -> None:
    """Gaps are refused by both; what both decide, they decide alike, by the settings' own names of columns."""
    from ucsearch.cli import app
    from ucsearch.records.log import AuditReader

    names = '[columns]\nseries = "sku"\nmembers = "m"\nignore = ["note"]\n[columns.rename]\nstock = "on_hand"\n'
    tokens = make_folder(
        tmp_path,
        '[server]\nbind = "127.0.0.1:0"\n' + CONFIG,
        PLAN.replace('units = "pieces"', 'units = "pieces"\nperiod = "day"') + names,
    )
    f, s = tmp_path / "f.csv", tmp_path / "s.csv"
    rows = [
        (sku, day, ";".join(str(4 + (i * day + at) % 7) for i in range(60)))
        for at, sku in enumerate(("007", "B")) for day in range(20, 26)
    ]  # fmt: skip
    s.write_text("sku;stock;open_orders_1;note\n007;3,5;5;x\nB;1;0;y\n")

    def write(skipped: int) -> None:
        head = "sku;date;" + ";".join(f"m{i}" for i in range(60))
        lines = [f"{sku};{day}.05.2024;{members}" for sku, day, members in rows if day != skipped]
        f.write_text("\n".join([head, *lines]) + "\n")

    with embedded(open_service(tmp_path)) as url:
        named = {"forecasts": f, "states": s, "decisions": tmp_path / "sent.csv"}
        words = ["remote", "--url", url, "decide", "orders"]
        words += [word for key, path in named.items() for word in ("--set", f"files.{key}={path}")]
        write(0)
        done = CliRunner().invoke(app, words, env={"UCSEARCH_TOKEN": tokens["agent"]})
        assert done.exit_code == 0, done.output
        write(22)
        done = CliRunner().invoke(app, words, env={"UCSEARCH_TOKEN": tokens["agent"]})
        assert (done.exit_code, "one day between them" in done.output) == (2, True), done.output
    write(0)
    log = tmp_path / "own.db"
    files = {"forecasts": f, "states": s, "decisions": tmp_path / "o.csv", "log": log}
    given = [word for name, path in files.items() for word in ("--set", f"files.{name}={path}")]
    given += ["--now", "2024-05-21T00:00:00Z"]
    done = CliRunner().invoke(
        app, ["decide", "-c", str(tmp_path / "orders.toml"), *given, "--now", "2024-05-21T00:00:00Z"]
    )
    assert done.exit_code == 0, done.output

    def told(path: Path) -> dict[str, Any]:
        own = ("id", "request", "gate", "plan", "valid_until")  # who asked, when, and that a plan can be paused
        with AuditReader(path) as reader:
            return {r.record["series"]: {k: v for k, v in r.record.items() if k not in own} for r in reader}

    assert set(told(log)) == {"007", "B"}
    assert told(log) == told(tmp_path / "log" / "decisions.db")


def test_the_async_client_in_this_process(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, WATCHED, RAMPED) as raw:
            transport = raw.http._transport
            async with AsyncClient("http://127.0.0.1:8411", raw.tokens["agent"], transport=transport) as client:
                both = await asyncio.gather(*(client.decide("orders", [item("A")], key="once") for _ in range(4)))
                assert len({b[0].seq for b in both}) == 1  # one row, whoever asks how often
                (receipt,) = await client.outcomes([Outcome(both[0][0].id, 9.0, START + timedelta(hours=1))])
                assert receipt.new
                assert [x["series"] async for x in client.decisions(limit=1)] == ["A"]

    asyncio.run(go())


def test_the_offline_monitor_reads_what_the_service_recorded(tmp_path: Path) -> None:
    async def go() -> Any:
        async with running(tmp_path, WATCHED, RAMPED) as raw:
            await fill(raw)
            return (await raw.get("/v1/monitors/orders")).json()

    online = asyncio.run(go())
    report = run_watch(tmp_path / "log" / "decisions.db")
    assert [s.series for s in report.series if s.status.tripped] == [DRIFTS]
    by_name = {s["series"]: s for s in online["streams"]}
    for s in report.series:
        assert s.status.evidence == pytest.approx(float(by_name[s.series]["evidence"]), rel=1e-9)
        assert (by_name[s.series]["state"] == "tripped") == s.status.tripped
    assert {s.series for s in report.series} == {DRIFTS, EVIL}
    assert run_watch(tmp_path / "log" / "decisions.db", plan="orders").outcomes == report.outcomes
