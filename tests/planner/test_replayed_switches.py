"""Backtests of inventories with order days, holidays, a shelf life, and of histories with unknown demand."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from tests.planner.kit import write_csv
from ucsearch.planner.backtest import run_backtest
from ucsearch.planner.settings import parse_settings

FIRST = date(2024, 1, 1)  # a Monday
DAYS = 60
TOML = """
period = "day"
[task]
name = "lead_time_inventory"
lead_time = 1
order_sizes = [0.0, 6.0, 12.0, 18.0]
holding = 0.1
shortage = 2.0
{task}
[policy]
name = "exact"
mode = "closed"
depth = {depth}
[actions]
points = 2
[columns]
{columns}
[forecaster]
name = "seasonal_naive"
paths = 4
floor = 0.0
[backtest]
periods = 10
warmup = 4
season = 7
earlier = 0
[run]
engine = "python"
"""


def day(t: int) -> str:
    return (FIRST + timedelta(days=t)).isoformat()


def replayed(tmp_path: Path, task: str, depth: int, columns: str = "", stock: Any = None) -> Any:
    y = np.random.default_rng(1).poisson(3.0, DAYS)
    rows = [["A", day(t), int(y[t]), *([] if stock is None else [stock[t]])] for t in range(DAYS)]
    head = ["series", "date", "demand", *([] if stock is None else ["stock"])]
    data = write_csv(tmp_path / "sales.csv", head, rows)
    text = TOML.format(task=task, depth=depth, columns=columns)
    return run_backtest(parse_settings(text.encode(), str(tmp_path / "ucsearch.toml")), data)


def test_orders_are_placed_on_order_days_that_are_no_holidays(tmp_path: Path) -> None:
    holiday = next(t for t in range(DAYS - 10, DAYS) if (FIRST + timedelta(days=t)).weekday() == 0)
    task = 'order_days = ["monday", "thursday"]\ndelivery_days = ["tuesday", "friday"]\n'
    for closed in ("", f'holidays = ["{day(holiday)}"]\n'):
        result = replayed(tmp_path, task + closed, 10)
        assert set(result.rules) == {"(R,S)", "(R,s,S)", "greedy"}
        for track in result.tracks.values():
            ordered = [DAYS - 10 + i for i in np.flatnonzero(track.parts["order"][0]).tolist()]
            assert {(FIRST + timedelta(days=t)).weekday() for t in ordered} <= {0, 3}
            assert not closed or holiday not in ordered
        assert result.tracks["policy"].parts["order"].sum() > 0.0


def test_every_third_day_is_an_order_day_unless_it_is_a_holiday(tmp_path: Path) -> None:
    begin = DAYS - 10
    holiday = begin + 4
    task = f'review_periods = 3\nreview_start = "{day(begin + 1)}"\nholidays = ["{day(holiday)}"]\n'
    result = replayed(tmp_path, task + 'delivery_days = ["tuesday", "thursday", "saturday"]\n', 12)
    for track in result.tracks.values():
        ordered = [begin + i for i in np.flatnonzero(track.parts["order"][0]).tolist()]
        assert {t - begin for t in ordered} <= {1, 7}
    assert result.tracks["policy"].parts["order"].sum() > 0.0


def test_what_is_discarded_is_counted(tmp_path: Path) -> None:
    result = replayed(tmp_path, "shelf_life = 2\ndisposal = 0.5\n", 5)
    assert "EWA base-stock" in result.rules
    assert all((track.parts["waste"] >= 0.0).all() for track in result.tracks.values())
    assert sum(track.parts["waste"].sum() for track in result.tracks.values()) > 0.0


def test_unknown_demand_counts_as_forecast(tmp_path: Path) -> None:
    stock = [0 if t in (20, DAYS - 3) else 9 for t in range(DAYS)]
    result = replayed(tmp_path, "", 4, "closing_stock = 'stock'", stock)
    demand = result.tracks["policy"].parts["demand"][0]
    assert not np.isnan(demand).any()
    assert any("2 periods without a known demand" in note for note in result.notes)
