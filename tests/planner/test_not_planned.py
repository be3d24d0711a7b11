"""Schedules: orders that the horizon cannot judge are no quantities, and what a person ordered counts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.planner.kit import FORECAST_HEAD, TOML, decide, forecast_rows, make_settings, read_csv, write_csv, write_job
from ucsearch.planner.decide.rows import next_orders
from ucsearch.planner.recorded.override import override_decision
from ucsearch.planner.recorded.schedule import write_schedule
from ucsearch.planner.settings import Settings, forecaster_classes
from ucsearch.tasks import LeadTimeInventory


@pytest.mark.parametrize("lead_time", [0, 1, 3])
def test_an_inventory_judges_what_arrives_before_the_last_period(lead_time: int) -> None:
    task = LeadTimeInventory(lead_time=lead_time).task()
    assert [task.judged(steps) for steps in (1, lead_time + 1, 12)] == [1, 1, 11 - lead_time]


def test_the_row_ends_where_the_horizon_cannot_judge() -> None:
    orders = (72.0, 72.0, 48.0, 72.0, 48.0, 72.0, 184.0)
    assert next_orders(orders, 5) == "72 48 72 48 (not planned yet)"
    assert next_orders(orders, 7) == "72 48 72 48 72 184"
    assert next_orders((10.0,), 1) == ""


def test_the_schedule_has_no_quantity_past_it(tmp_path: Path) -> None:
    write_job(tmp_path)
    decide(tmp_path)
    rows = [row for row in scheduled(tmp_path) if row["outcome"] == "RELEASED"]
    past = [row for row in rows if row["label"] == "not planned yet"]
    assert past
    assert {row["action"] for row in past} == {""}
    assert all(row["action"] != "" for row in rows if row["period"] == "1")


def test_the_schedule_shows_what_a_person_ordered(tmp_path: Path) -> None:
    """In place of a released order, of a refused forecast, and the decision again where it was withdrawn."""
    write_job(tmp_path)
    rows = [row for row in forecast_rows() if row[0] != "B"]
    write_csv(tmp_path / "forecasts.csv", FORECAST_HEAD, rows)
    decide(tmp_path)
    log = tmp_path / "log.db"
    words: Any = dict(who="M. Curie", why="strike", clock=lambda: datetime(2024, 5, 20, tzinfo=UTC))
    first = {row["series"]: row["action"] for row in scheduled(tmp_path) if row["period"] == "1"}
    assert "B" not in first
    for name, quantity in (("A", "5"), ("B", "10"), ("C", "10")):
        override_decision(log, name, quantity=quantity, **words)
    override_decision(log, "C", **words)
    found = scheduled(tmp_path)
    assert [(row["outcome"], row["action"]) for row in found if row["series"] == "A"] == [("OVERRIDDEN", "5")]
    assert [(row["outcome"], row["action"], row["before"]) for row in found if row["series"] == "B"] == [
        ("OVERRIDDEN", "10", "4")
    ]
    whole = [row for row in found if row["series"] == "C"]
    assert (whole[0]["outcome"], whole[0]["action"], len(whole)) == ("RELEASED", first["C"], 3)


@pytest.mark.parametrize("cutoff", [False, True])
def test_the_schedule_says_when_periods_begin(tmp_path: Path, cutoff: bool) -> None:
    write_job(tmp_path)
    more = ["2024-05-19"] if cutoff else []
    rows = [[n, f"2024-05-{19 + h}", *members, *more] for n, h, *members in forecast_rows()]
    head = ["series", "date", *FORECAST_HEAD[2:], *(["cutoff"] if cutoff else [])]
    write_csv(tmp_path / "forecasts.csv", head, rows)
    settings = make_settings(text=f"period = 'day'\n{TOML}")
    decide(tmp_path, settings)
    days = [row["start"] for row in scheduled(tmp_path, settings) if row["series"] == "A"]
    assert days == ["2024-05-20", "2024-05-21", "2024-05-22"]


def scheduled(folder: Path, settings: Settings | None = None) -> list[dict[str, str]]:
    write_schedule(folder / "log.db", folder / "schedule.csv", settings=settings)
    return read_csv(folder / "schedule.csv")


def test_the_page_of_forecasts_names_every_forecaster() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "forecasts.md").read_text(encoding="utf-8")
    rows = page.partition("| model | `forecaster.name` |")[2].partition("\n\n")[0].splitlines()[2:]
    names = [row.split("|")[2].strip(" `") for row in rows]
    assert sorted(names) == sorted(forecaster_classes())
