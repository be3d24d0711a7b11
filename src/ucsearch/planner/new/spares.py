"""`ucsearch new spares`: spare parts from a regular and from a faster, dearer supplier; settings and sample files that
work at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ucsearch.planner.files.table import write_table
from ucsearch.planner.new.inventory import NOW, write_sales
from ucsearch.planner.new.sample import poisson

__all__ = ["COMMANDS", "FILES", "SETTINGS", "write_samples"]

FILES = ("ucsearch.toml", "states.csv", "sales.csv")
COMMANDS = (
    "ucsearch forecast",
    f"ucsearch decide --now {NOW}",
    "ucsearch explain pump-seal",
    "ucsearch orders",
    "ucsearch backtest",
)
PARTS = {"pump-seal": 1.0, "bearing": 0.7, "sensor": 0.4, "filter": 0.9, "belt": 0.6, "valve": 0.5}  # failures a day

SETTINGS = """\
# Settings of a store of spare parts. Lines with a # show alternatives; `ucsearch tasks --schema` lists every key.

units = "pieces"
currency = "EUR"
period = "day"

[files]                 # beside this file; every command reads and writes these
sales = "sales.csv"
states = "states.csv"
forecasts = "forecasts.csv"     # written by `ucsearch forecast`, read by `decide`
decisions = "decisions.csv"
log = "decisions.db"            # the audit log
orders = "orders.csv"           # written by `ucsearch orders`
pages = "pages"                 # every command writes a page there

[task]
name = "lead_time_inventory"
unmet = "backordered"   # a machine waits for its part
holding = 0.50          # EUR per piece and day
shortage = 25.0         # EUR per piece and day that a machine waits

[[supplier]]            # by sea
name = "Osaka"
lead_time = 2           # days
unit_cost = 40.0        # EUR per piece
order_sizes = [0, 1, 2, 3]

[[supplier]]            # by courier
name = "Lyon"
lead_time = 0
unit_cost = 48.0
order_sizes = [0, 1, 2, 3, 4]

[policy]
name = "exact"
mode = "closed"         # plans that react to what fails
depth = 5               # days planned ahead

[gate]
certificate = true

[forecaster]
name = "bootstrap"      # of demand that comes now and then
paths = 60
floor = 0.0

[backtest]
periods = 28
warmup = 7
season = 1              # machines fail on any day of the week
"""


def write_samples(folder: Path) -> None:
    demand = poisson(PARTS)

    def state_rows() -> Iterator[Sequence[Any]]:
        for one, mean in zip(demand.series, PARTS.values(), strict=True):
            yield [one.id, round(2.0 * mean), round(mean)]

    write_table(folder / "states.csv", {"series": str, "on_hand": int, "open_orders_1": float}, state_rows)
    write_sales(folder / "sales.csv", demand)
