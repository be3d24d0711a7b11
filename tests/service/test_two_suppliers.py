"""Actions of several numbers in a service: orders from two suppliers are decided, overridden, reported and shown."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from tests.service.console_kit import Person
from tests.service.kit import CONFIG, START, make_folder, open_service, running
from ucsearch.cli import app, remote
from ucsearch.client import Client, Forecast, Item, Outcome, ServiceProblem
from ucsearch.records.log import AuditReader
from ucsearch.service.run import embedded
from ucsearch.verify import verify_log

PLAN = """
units = "pieces"
currency = "EUR"
period = "day"
[task]
name = "lead_time_inventory"
holding = 0.1
shortage = 5.0
[[supplier]]
name = "Lyon"
lead_time = 1
unit_cost = 1.3
order_sizes = [0.0, 4.0]
[[supplier]]
name = "Genoa"
lead_time = 2
unit_cost = 1.0
fixed_cost = 0.5
order_sizes = [0.0, 3.0, 6.0]
[policy]
name = "exact"
mode = "closed"
depth = 4
[run]
engine = "python"
"""
MEMBERS = [[2.0 + j, 3.0, 4.0, 3.0] for j in range(4)]
WATCHED = CONFIG + "[plan.monitor]\nmax_undercoverage = 0.035\n"


def item(series: str, on_hand: float = 2.0) -> Item:
    return Item(series, {"on_hand": on_hand, "open_orders": [1.0]}, Forecast(members=MEMBERS, cutoff=START.isoformat()))


def test_orders_from_two_suppliers_are_decided_overridden_and_reported(tmp_path: Path) -> None:
    tokens = make_folder(tmp_path, '[server]\nbind = "127.0.0.1:0"\n' + CONFIG, PLAN)
    with (
        embedded(open_service(tmp_path)) as url,
        Client(url, tokens["agent"]) as agent,
        Client(url, tokens["operator"]) as operator,
    ):
        a, b = agent.decide("orders", [item("A"), item("B", 40.0)], key="morning")
        assert (a.outcome, b.outcome) == ("RELEASED", "RELEASED")
        assert isinstance(a.action, tuple)
        assert (len(a.action), a.order, sum(a.action)) == (2, sum(a.action), a.order)
        assert b.action == (0.0, 0.0)
        assert "from" in a.label
        assert agent.decide("orders", [item("A"), item("B", 40.0)], key="morning") == (a, b)
        assert [row["action"] for row in operator.decisions()] == [[0.0, 0.0], list(a.action)]
        # Only as many numbers as the task has, and only what the rules allow.
        for wrong in (3.0, [1.0, 2.0, 3.0], "no such label", (-1.0, 0.0)):
            with pytest.raises(ServiceProblem) as caught:
                operator.override(a.id, wrong, "for the test")
            assert (caught.value.status, caught.value.code) == (422, "not_allowed"), wrong
        # On the grid by numbers, then by label, then off the grid, then withdrawn.
        seen: Any = operator.override(a.id, (3.0, 4.0), "both of them").content
        assert (seen["action"], seen["off_grid"], seen["order"], seen["effective"]) == ([3, 4], False, 7, [3, 4])
        assert operator.series("A")["effective"] == [3, 4]
        seen = operator.override(a.id, seen["label"], "the same by its name", expects=seen["id"]).content
        assert seen["action"] == [3, 4]
        seen = operator.override(a.id, [5.0, 0.0], "off the grid", expects=seen["id"]).content
        assert (seen["action"], seen["off_grid"]) == ([5, 0], True)
        operator.override(a.id, None, "taken back", expects=seen["id"])
        assert operator.series("A")["effective"] == list(a.action)
        # What was done, as it was decided and otherwise.
        told = agent.outcomes([Outcome(a.id, 3.0, START, taken=a.action), Outcome(b.id, 3.0, START, taken=[3.0, 0.0])])
        assert [x["followed"] for x in told[0].content["items"]] == [True, False]
        assert "Genoa" in operator.explain(a.id)["text"]
        assert operator.verify(a.id)["status"] == "valid"
    verdicts = list(verify_log(tmp_path / "log/decisions.db"))
    assert {v.status for v in verdicts} == {"valid"}
    with AuditReader(tmp_path / "log/decisions.db") as log:
        assert log.get(a.id).record["outcome"]["action"] == list(a.action)
        assert len(verdicts) == log.count()


def test_pages_show_and_take_several_numbers(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN) as client:
            asked = {"items": [item(name).content() for name in ("A", "B")]}
            made = (await client.post("/v1/plans/orders/decisions", asked)).json()["items"]
            person, first = Person(client), made[0]
            shown = "+".join(f"{x:g}" for x in first["action"])
            await person.login("admin")
            for path in (
                "/console", "/console/decisions", f"/console/decisions/{first['id']}", "/console/series?name=A",
                "/console/monitor", "/console/plans", f"/console/decisions/{first['id']}/override",
            ):  # fmt: skip
                page = await person.look(path)
                assert page.status_code == 200, page.text
                if "decisions" in path or "series" in path:
                    assert shown in page.text, path
            form = f"/console/decisions/{first['id']}/override"
            assert 'value="action:3+4"' in page.text
            assert "2 numbers with + between them, as 1+1" in page.text
            why = {"why": "for the test"}
            confirm = await person.send(form, form, choice="action:3+4", **why)
            assert "order 3 from Genoa and 4 from Lyon" in confirm.text
            again = await person.send(form, form, choice="other", other="5 + 0", **why)
            assert "off the grid" in again.text
            for odd in ("5", "1+2+3", "five"):
                assert (await person.send(form, form, choice="other", other=odd, **why)).status_code == 422, odd
            done = await person.send(form, form, choice="other", other="5+0", step="record", **why)
            assert "Recorded." in done.text
            assert "5+0" in done.text
            table = await person.look("/console/decisions.csv")
            rows = list(csv.DictReader(table.text.lstrip("\ufeff").splitlines()))
            assert [(row["series"], row["effective"]) for row in rows] == [("B", shown), ("A", "5+0")]

    asyncio.run(go())


def test_the_command_line_takes_and_writes_several_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tokens = make_folder(tmp_path / "service", '[server]\nbind = "127.0.0.1:0"\n' + CONFIG, PLAN)
    lines = ["series,step,sample,value"]
    lines += [f"A,{h + 1},{j},{x}" for j, path in enumerate(MEMBERS) for h, x in enumerate(path)]
    Path("forecasts.csv").write_text("\n".join(lines))
    Path("states.csv").write_text("series,on_hand,open_orders_1\nA,2,1\n")

    def run(role: str, *arguments: str) -> Any:
        monkeypatch.setenv("UCSEARCH_TOKEN", tokens[role])
        result = CliRunner().invoke(app, ["remote", "--url", url, *arguments])
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    assert isinstance(remote._transport, httpx.BaseTransport | None)
    with embedded(open_service(tmp_path / "service")) as url:
        run("agent", "decide", "orders", "--set", "files.decisions=out.csv")
        (row,) = csv.DictReader(Path("out.csv").read_text().splitlines())
        assert len(row["action"].split()) == 2
        assert (
            "order 3 from Genoa and 4 from Lyon is now"
            in run("operator", "override", "A", "3+4", "--why", "w w").stdout
        )
        Path("came.csv").write_text(f"decision,value,observed_at,taken\n{row['decision']},3,{START.isoformat()},3 4\n")
        assert "1 outcomes reported" in run("agent", "outcomes", "came.csv").stdout
    with AuditReader(tmp_path / "service/log/decisions.db") as log:
        (report,) = [r.record for r in log if r.record["kind"] == "outcome"]
        assert json.dumps(report["taken"]) == "[3, 4]"
