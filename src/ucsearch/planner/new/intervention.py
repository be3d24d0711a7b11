"""`ucsearch new intervention`: inspections or treatments that are few; settings and sample files that work at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from ucsearch.lab.data.embedded import Draws
from ucsearch.planner.files.table import write_table

__all__ = ["COMMANDS", "FILES", "SETTINGS", "write_samples"]

FILES = ("ucsearch.toml", "harm.csv", "states.csv")
COMMANDS = (
    "ucsearch forecast",
    "ucsearch decide --now 2024-07-01",
    "ucsearch explain --plan",
    "ucsearch backtest",
    "ucsearch explain LINE-1",
)
FIRST = date(2024, 1, 1)
LENGTH = 182
LINES = (("LINE-1", 30.0), ("LINE-2", 18.0), ("LINE-3", 45.0))  # name, EUR of a usual day

SETTINGS = """\
# Settings of an intervention job: on which days to inspect, treat or warn. Lines with a # show defaults or
# alternatives; every key is listed by `ucsearch tasks --schema` and every task by `ucsearch tasks intervention`.

units = "doses"         # what is given
currency = "EUR"        # what harm is counted in
period = "day"

[files]                 # beside this file; every command reads and writes these
sales = "harm.csv"
states = "states.csv"
forecasts = "forecasts.csv"     # written by `ucsearch forecast`, read by `decide`
decisions = "decisions.csv"
log = "decisions.db"            # the audit log
plan = "plan.csv"               # written by `ucsearch explain --plan`
pages = "pages"                 # every command writes a page there; left out: none
# archive = "archive.parquet"   # past forecasts and outcomes, for [forecast] recalibrate

[task]
name = "intervention"
doses = [0.0, 1.0]      # 0: watch
cooldown = 2            # days without a dose after one
delay = 1               # days until a dose begins to work
effect = [0.7, 0.5, 0.3]   # share of harm that one dose averts then, and on the days after
cost = 30.0             # EUR per dose
budget = 8.0            # doses that are left; a budget column in the states file replaces it
budget_value = 5.0      # EUR that a dose left at the end is worth
# fixed_cost = 0.0      # EUR per day with a dose

[policy]
name = "exact"
depth = 14              # days planned ahead
mode = "members"        # harm below 0 is none, so every member counts
risk = 0.0

[proof]
node_budget = 200000

[gate]
certificate = true      # else watch

[columns]
demand = "harm"         # the history's column

[forecaster]
name = "auto"           # by each series' past: smoothing or unbiased_ridge
paths = 30
floor = 0.0

[backtest]
periods = 28
warmup = 0
# season = 7            # periods of a season; left out: the usual one of `period`, if the history holds three of them
"""


def write_samples(folder: Path) -> None:
    series = [(name, _harm(number, level)) for number, (name, level) in enumerate(LINES)]

    def harm() -> Iterator[Sequence[Any]]:
        for name, values in series:
            for t, value in enumerate(values):
                yield [name, (FIRST + timedelta(days=t)).isoformat(), value]

    write_table(folder / "harm.csv", {"series": str, "date": str, "harm": float}, harm)
    states = [["LINE-1", 8, 0], ["LINE-2", 5, 1], ["LINE-3", 8, 0]]
    write_table(folder / "states.csv", {"series": str, "budget": float, "wait": int}, lambda: iter(states))


def _harm(number: int, level: float) -> list[float]:
    """A weekly pattern on slow waves, in EUR of damage a day."""
    draws, found = Draws(2024, 300 + number), []
    for t in range(LENGTH):
        week = 1.0 + 0.3 * math.sin(2.0 * math.pi * t / 7.0)
        wave = 1.0 + 0.7 * math.sin(2.0 * math.pi * (t + 11.0 * number) / 23.0)
        found.append(round(max(0.0, level * week * wave + 0.2 * level * draws.normal()), 2))
    return found
