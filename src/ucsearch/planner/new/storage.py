"""`ucsearch new storage`: a battery on hourly prices; settings and sample files that work at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ucsearch.lab.data.embedded import Draws
from ucsearch.planner.files.table import write_table

__all__ = ["COMMANDS", "FILES", "SETTINGS", "write_samples"]

FILES = ("ucsearch.toml", "prices.csv", "states.csv")
COMMANDS = (
    "ucsearch forecast",
    "ucsearch decide --now 2024-02-12",
    "ucsearch explain --plan",
    "ucsearch backtest",
    "ucsearch explain NORTH",
)
FIRST = datetime(2024, 1, 1)  # a Monday
DAYS = 42
MARKETS = (("NORTH", 55.0, 18.0), ("SOUTH", 62.0, 25.0))  # name, mean price, swing of the day, EUR/MWh

SETTINGS = """\
# Settings of a storage job: when to charge and when to sell. Lines with a # show defaults or alternatives; every key is
# listed by `ucsearch tasks --schema` and every task by `ucsearch tasks storage`. Unknown keys are refused.

units = "MWh"           # what energy is counted in; power is then in MW
currency = "EUR"        # prices are EUR per MWh
period = "hour"         # 15min, 30min, hour: power times the period's length is energy

[files]                 # beside this file; every command reads and writes these
sales = "prices.csv"
states = "states.csv"
forecasts = "forecasts.csv"     # written by `ucsearch forecast`, read by `decide`
decisions = "decisions.csv"
log = "decisions.db"            # the audit log
plan = "plan.csv"               # written by `ucsearch explain --plan`
pages = "pages"                 # every command writes a page there; left out: none
# archive = "archive.parquet"   # past forecasts and outcomes, for [forecast] recalibrate

[task]
name = "storage"
capacity = 4.0          # MWh
power = 2.0             # MW, both ways, metered outside; or your own: powers = [-2.0, -1.0, 0.0, 1.0, 2.0]
# level_step = 0.1      # MWh: plans move the charge by whole steps, so that every plan can be compared; left out, some
                        # twentieth of what full power charges in a period (0.1 by hours, 0.025 at 15 minutes)
charge_efficiency = 0.95
discharge_efficiency = 0.95
wear = 1.0              # EUR per MWh drawn
end_price = "forecast"  # energy left is worth what it would earn in one more day like the last; "given": end_value
# end_value = 0.0       # EUR per MWh left, with end_price = "given"
# fee = 0.0             # EUR per MWh bought or sold
# leak = 0.0            # share of the charge lost in a period
# ramp = 1.0            # MW by which power may change from one period to the next
# cycles = 1.5          # full discharges that are left; a cycles column in the states file replaces it
# target = 2.0          # MWh that must be there when the states file's column `due` (periods from now) runs out

[policy]
name = "exact"          # proves the best of the powers offered
# depth = 24            # periods planned ahead; left out: a whole day, 24 hours or 96 quarters; forecasts must reach it
risk = 0.0              # earnings are linear in prices, so the mean path gives the best plan

[proof]
node_budget = 5000000   # effort per decision before it counts as not proved

[gate]
certificate = true      # send only what is proved best among the powers offered; else stand idle

[columns]
demand = "price"        # the history's column

[forecaster]            # used by `ucsearch forecast`, `calibrate` and `backtest`
name = "ridge_paths"
paths = 30              # prices may be below 0, so there is no floor

[backtest]
periods = 168           # periods that are counted: a week of hours; 672 at 15 minutes
warmup = 24             # periods before them
# season = 24           # periods of a season; left out: the usual one of `period`, if the history holds three of them
"""


def write_samples(folder: Path) -> None:
    hours = 24 * DAYS
    series = [(name, _prices(number, mean, swing, hours)) for number, (name, mean, swing) in enumerate(MARKETS)]

    def prices() -> Iterator[Sequence[Any]]:
        for name, values in series:
            for t, value in enumerate(values):
                yield [name, (FIRST + timedelta(hours=t)).isoformat(timespec="minutes"), value]

    write_table(folder / "prices.csv", {"series": str, "date": str, "price": float}, prices)
    states = [["NORTH", 1.0], ["SOUTH", 3.0]]
    write_table(folder / "states.csv", {"series": str, "level": float}, lambda: iter(states))


def _prices(number: int, mean: float, swing: float, hours: int) -> list[float]:
    """Two peaks a day, quiet weekends, a slow wave of wind, and hours that stand out."""
    draws, slow, found = Draws(2024, 100 + number), 0.0, []
    for t in range(hours):
        hour, day = t % 24, t // 24
        shape = math.sin(2.0 * math.pi * (hour - 7) / 24.0) + 0.6 * math.sin(4.0 * math.pi * (hour - 5) / 24.0)
        slow = 0.97 * slow + 1.2 * draws.normal()
        weekend = 0.85 if day % 7 >= 5 else 1.0
        value = mean * weekend + swing * shape + 2.0 * slow + 2.5 * draws.normal()
        if draws.uniform() < 0.01:
            value += 3.0 * swing * draws.uniform()
        found.append(round(value, 2))
    return found
