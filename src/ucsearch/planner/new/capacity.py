"""`ucsearch new capacity`: crews, servers or machines for a demand; settings and sample files that work at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ucsearch.lab.data.embedded import Draws
from ucsearch.planner.files.table import write_table

__all__ = ["COMMANDS", "FILES", "SETTINGS", "write_samples"]

FILES = ("ucsearch.toml", "demand.csv", "states.csv")
COMMANDS = (
    "ucsearch forecast",
    "ucsearch decide --now 2024-02-05",
    "ucsearch explain --plan",
    "ucsearch backtest",
    "ucsearch explain DESK-A",
)
FIRST = datetime(2024, 1, 1)
DAYS = 35
DESKS = (("DESK-A", 60.0), ("DESK-B", 40.0))  # name, calls of a usual hour

SETTINGS = """\
# Settings of a capacity job: how many units (crews, servers, machines) to start or stop. Lines with a # show defaults
# or alternatives; every key is listed by `ucsearch tasks --schema` and every task by `ucsearch tasks capacity_plan`.

units = "calls"         # what demand is counted in
currency = "EUR"
period = "hour"         # 15min, 30min, hour, day, weekday, week, month

[files]                 # beside this file; every command reads and writes these
sales = "demand.csv"
states = "states.csv"
forecasts = "forecasts.csv"     # written by `ucsearch forecast`, read by `decide`
decisions = "decisions.csv"
log = "decisions.db"            # the audit log
plan = "plan.csv"               # written by `ucsearch explain --plan`
pages = "pages"                 # every command writes a page there; left out: none
# archive = "archive.parquet"   # past forecasts and outcomes, for [forecast] recalibrate

[task]
name = "capacity_plan"
unit_output = 10.0      # calls that one agent takes in a period
startup_delay = 1       # periods from the call to service
minimum_up_time = 2     # periods that an agent stays
changes = [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]   # agents called in (above 0) or sent home
smallest = 1            # agents that stay in service
largest = 14            # agents in service and on their way
shortage = 3.0          # EUR per call that is not taken
idle = 0.2              # EUR per call that could have been taken besides
running = 6.0           # EUR per agent and period
start_cost = 2.0        # EUR per agent called in
# ramp = 2.0            # agents called in or sent home in one period

[policy]
name = "exact"
depth = 8               # periods planned ahead
mode = "members"        # costs bend at the demand, so every member counts, not their mean alone
risk = 0.0

[proof]
node_budget = 200000

[gate]
certificate = true      # else the units that the forecast's upper quantile needs

[forecaster]
name = "ridge_paths"
paths = 30
floor = 0.0

[backtest]
periods = 72
warmup = 24
# season = 24           # periods of a season; left out: the usual one of `period`, if the history holds three of them
"""


def write_samples(folder: Path) -> None:
    series = [(name, _calls(number, level)) for number, (name, level) in enumerate(DESKS)]

    def demand() -> Iterator[Sequence[Any]]:
        for name, values in series:
            for t, value in enumerate(values):
                yield [name, (FIRST + timedelta(hours=t)).isoformat(timespec="minutes"), value]

    write_table(folder / "demand.csv", {"series": str, "date": str, "demand": float}, demand)
    states = [["DESK-A", 3, 1], ["DESK-B", 2, 0]]
    write_table(folder / "states.csv", {"series": str, "online": int, "starting_1": int}, lambda: iter(states))


def _calls(number: int, level: float) -> list[float]:
    draws, found = Draws(2024, 200 + number), []
    for t in range(24 * DAYS):
        hour, day = t % 24, t // 24
        shape = max(0.15, math.sin(math.pi * (hour - 5) / 16.0)) if 5 <= hour <= 21 else 0.15
        mean = level * shape * (0.6 if day % 7 >= 5 else 1.0)
        found.append(float(max(0, round(mean + 0.12 * level * draws.normal()))))
    return found
