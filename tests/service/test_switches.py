"""Every rule of an inventory that a settings file can switch on is decided, shown, overridden, reported and verified by
a service as the library decides it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.service.console_kit import Person
from tests.service.kit import CONFIG, START, make_folder, running
from ucsearch.planner.decide.in_memory import decide_cases
from ucsearch.planner.settings import load_settings
from ucsearch.service.config import ConfigError, PlanTable
from ucsearch.service.writer.plans import load_plan
from ucsearch.verify import verify_log

PLAN = """
units = "pieces"
currency = "EUR"
period = "day"
[task]
name = "lead_time_inventory"
order_sizes = [0.0, 3.0, 6.0]
holding = 0.1
{task}
[policy]
name = "exact"
mode = "closed"
depth = {depth}
[run]
engine = "python"
"""
WATCHED = CONFIG + "[plan.monitor]\nmax_undercoverage = 0.035\n"
# By name: what [task] says, periods that are planned, and what the state says besides.
SWITCHES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "order days": ('order_days = ["Mon", "Thu"]', 7, {"date": "2026-03-03"}),
    "delivery days": ('delivery_days = ["Tue", "Fri"]', 7, {"date": "2026-03-03"}),
    "review periods": ('review_periods = 2\nreview_start = "2026-03-02"', 5, {"date": "2026-03-03"}),
    "review periods beside holidays": (
        'review_periods = 2\nreview_start = "2026-03-02"\ndelivery_days = ["Tue", "Fri", "Sun"]\n'
        'holidays = ["2026-03-06"]',
        9,
        {"date": "2026-03-03"},
    ),
    "holidays": ('holidays = ["2026-03-05"]', 5, {"date": "2026-03-03"}),
    "shelf life": ("shelf_life = 3\ndisposal = 0.5", 3, {"ages": [1.0, 1.0]}),
    "newest first": ('shelf_life = 3\nissuing = "lifo"', 3, {"ages": [1.0, 1.0]}),
    "missed demand": ("missed_unit = 2.0\nmissed_period = 1.0", 3, {}),
    "fill rate": ("fill_rate = 0.9", 3, {}),
    "service level": ("service_level = 0.9", 3, {}),
    "uncertain lead time": ("lead_time = { 1 = 0.7, 2 = 0.3 }", 3, {}),
    "price breaks": ("unit_cost = 1.0\nprice_breaks = { 6 = 0.8 }", 3, {}),
    "incremental discount": ('unit_cost = 1.0\nprice_breaks = { 6 = 0.8 }\ndiscount = "incremental"', 3, {}),
    "levels": ('orders = "level"', 3, {}),
    "packs": ("case_pack = 3.0\nminimum_order = 3.0", 3, {}),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_a_service_decides_every_switch_as_the_library_does(tmp_path: Path, name: str) -> None:
    own, depth, more = SWITCHES[name]
    own += "" if "lead_time " in own else "\nlead_time = 1"
    own += "" if "_rate" in own or "_level" in own else "\nshortage = 5.0"
    plan = PLAN.format(task=own, depth=depth)
    penalty = "missed_unit" if "fill_rate" in own else "missed_period"
    (tmp_path / "targets.csv").write_text(
        f"series,penalty,target,value,promised,below,factor\nA,{penalty},0.9,9,0.9,0.8,1\n"
    )
    paths = [[2.0 + j % 3, 3.0, 4.0, 2.0 + j % 2, 3.0, 3.0, 4.0, 2.0, 3.0] for j in range(60)]
    state = {"on_hand": 2.0, "open_orders": [1.0], **more}
    asked = {"series": "A", "state": state, "forecast": {"members": paths, "cutoff": "2026-03-02T00:00:00+00:00"}}
    seen: dict[str, Any] = {}

    async def go() -> None:
        async with running(tmp_path, WATCHED, plan) as client:
            made = await client.post("/v1/plans/orders/decisions", {"items": [asked]})
            assert made.status_code == 200, made.text
            (answer,) = made.json()["items"]
            seen.update(answer)
            assert answer["outcome"] == "RELEASED", answer["sentence"]
            id, person = answer["id"], Person(client)
            explained = (await client.get(f"/v1/decisions/{id}/explain")).json()
            assert explained["text"]
            await person.login("operator")
            for path in (f"/console/decisions/{id}", f"/console/decisions/{id}/override", "/console/series?name=A"):
                assert (await person.look(path)).status_code == 200, path
            body = {"action": answer["action"], "why": "the same again", "expects": id}
            override = await client.post(f"/v1/decisions/{id}/override", body, role="operator")
            assert override.status_code == 201, override.text
            report = {"decision": id, "value": 3.0, "observed_at": START.isoformat(), "taken": answer["action"]}
            told = await client.post("/v1/outcomes", {"items": [report]})
            assert told.status_code == 201, told.text
            (receipt,) = told.json()["items"]
            assert receipt["followed"]
            assert receipt["rank"] is not None

    asyncio.run(go())
    row = {"series": "A", **state, "forecast": asked["forecast"]}
    (expected,) = decide_cases(load_settings(tmp_path / "orders.toml"), [row], now=START)
    assert [seen[k] for k in ("outcome", "action", "order")] == [expected[k] for k in ("outcome", "action", "order")]
    assert {v.status for v in verify_log(tmp_path / "log/decisions.db")} == {"valid"}


def test_a_plan_with_a_target_needs_what_reaches_it_at_the_start(tmp_path: Path) -> None:
    plan = PLAN.format(task="lead_time = 1\nfill_rate = 0.9", depth=3)
    make_folder(tmp_path, CONFIG, plan)
    table = PlanTable(name="orders", settings="orders.toml")
    with pytest.raises(ConfigError, match=r"plan 'orders': .*targets\.csv: saw no file"):
        load_plan(table, tmp_path)
    targets = tmp_path / "targets.csv"
    targets.write_text("series,penalty\nA,missed_unit\n")
    with pytest.raises(ConfigError, match=r"plan 'orders': .*a column 'target'"):
        load_plan(table, tmp_path)
    targets.write_text("series,penalty,target,value,promised,below,factor\nA,missed_unit,0.9,9,0.9,0.8,1\n")
    found = load_plan(table, tmp_path)
    assert not found.is_changed(tmp_path)
    targets.write_text(targets.read_text().replace(",9,", ",99,"))
    assert found.is_changed(tmp_path)
    assert found.known.kinds().renewed().penalties["A"].value == 9.0
