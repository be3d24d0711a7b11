"""Orders that the horizon cannot judge are not shown as quantities."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.pipeline.kit import decide, write_job
from ucsearch.cli.forecast import MODELS
from ucsearch.pipeline.plans import next_orders
from ucsearch.pipeline.schedule import write_schedule
from ucsearch.settings import forecaster_classes
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
    write_schedule(tmp_path / "log.db", tmp_path / "schedule.csv")
    with (tmp_path / "schedule.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["outcome"] == "RELEASED"]
    past = [row for row in rows if row["label"] == "not planned yet"]
    assert past
    assert {row["action"] for row in past} == {""}
    assert all(row["action"] != "" for row in rows if row["period"] == "1")


def test_the_help_names_every_forecaster() -> None:
    assert set(MODELS.split(", ")) == set(forecaster_classes())
