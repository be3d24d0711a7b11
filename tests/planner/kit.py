"""Small planning jobs: five series, three steps, decided by the plain engine in milliseconds."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ucsearch.planner.decide.job import DecideReport, run_decide
from ucsearch.planner.settings import Settings, parse_settings

TOML = """
units = "pieces"
currency = "EUR"
[task]
name = "lead_time_inventory"
lead_time = 1
order_sizes = [0.0, 5.0, 10.0, 15.0]
holding = 1.0
shortage = 9.0
unit_cost = 0.5
[policy]
name = "exact"
depth = 3
risk = 0.25
[forecaster]
name = "seasonal_naive"
paths = 5
[backtest]
periods = 6
warmup = 2
season = 1
[run]
engine = "python"
chunk = 2
"""
NAMES = ("A", "B", "C", "D", "E")


def make_settings(extra: str = "", text: str = TOML) -> Settings:
    return parse_settings((text + extra).encode(), "job.toml")


def forecast_rows(names: Sequence[str] = NAMES, steps: int = 3) -> list[list[Any]]:
    """series, step, four members: plain numbers that differ by series, step and member."""
    return [
        [name, h + 1, *(4.0 + 2.0 * i + h + 1.5 * j for j in range(4))]
        for i, name in enumerate(names)
        for h in range(steps)
    ]


FORECAST_HEAD = ["series", "step", "member_1", "member_2", "member_3", "member_4"]
STATE_HEAD = ["series", "on_hand", "open_orders_1"]


def state_rows(names: Sequence[str] = NAMES) -> list[list[Any]]:
    return [[name, 3.0 + i, 5.0] for i, name in enumerate(names)]


def write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_job(folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return (
        write_csv(folder / "forecasts.csv", FORECAST_HEAD, forecast_rows()),
        write_csv(folder / "states.csv", STATE_HEAD, state_rows()),
    )


def decide(
    folder: Path, settings: Settings | None = None, out: str = "out.csv", log_name: str = "log.db", **options: Any
) -> DecideReport:
    return run_decide(
        make_settings() if settings is None else settings, folder / "forecasts.csv", folder / "states.csv",
        folder / out, folder / log_name, **options,
    )  # fmt: skip
