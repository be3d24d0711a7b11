"""`ucsearch new truck`: a shop whose products share two trucks a day; settings and sample files that work at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ucsearch.lab.data.embedded import sample_demand, sample_states
from ucsearch.planner.files.table import write_table
from ucsearch.planner.new.inventory import HORIZON, NOW, write_forecasts, write_sales

__all__ = ["COMMANDS", "FILES", "SETTINGS", "write_samples"]

FILES = ("ucsearch.toml", "forecasts.csv", "states.csv", "sales.csv")
COMMANDS = (
    f"ucsearch decide --now {NOW}",
    "ucsearch explain SKU-001",
    "ucsearch orders",
    "ucsearch backtest",
)
PRODUCTS = 12
LITRES = (2.0, 1.0, 5.0, 3.0)
PACK_DAYS = 0.75  # of a product's demand that a pack holds, about
TRUCKS = ("north", "south")

SETTINGS = """\
# Settings of a shop whose products share trucks. Lines with a # show alternatives; `ucsearch tasks --schema`
# lists every key and `ucsearch tasks` every task.

units = "pieces"
currency = "EUR"
period = "day"

[files]                 # beside this file; every command reads and writes these
sales = "sales.csv"
states = "states.csv"
forecasts = "forecasts.csv"     # written by `ucsearch forecast`, read by `decide`
decisions = "decisions.csv"
log = "decisions.db"            # the audit log
orders = "orders.csv"           # written by `ucsearch orders`, a file for each truck
pages = "pages"                 # every command writes a page there

[shared]                # limits that all products share
truck = { column = "litres", per = "truck", limit = { north = 1300.0, south = 300.0 } }
# truck = { column = "litres", limit = 900.0 }              # one truck for all
# truck = { column = "litres", per = "truck", dates = "trucks.csv" }   # columns date, truck, limit
# money = { use = "spend", limit = 5000.0 }                 # several limits hold together

[task]
name = "lead_time_inventory"
lead_time = 1           # periods from order to delivery
unmet = "lost"
holding = 0.10          # EUR per piece left at the end of a period
shortage = 2.00         # EUR per piece short; a column `shortage` of the states says it product by product
fixed_cost = 4.00       # EUR per order; orders are whole packs, column `case_pack` of the states

[actions]
lots = 8                # order sizes that are tried for each product
points = 5              # outcomes of a day's demand that are told apart
round_to = 1.0          # whole pieces

[policy]
name = "exact"
mode = "closed"         # values every order size, which sharing needs
depth = 7               # days planned ahead

[gate]
certificate = true
shared_gap = 0.01       # accepted loss from sharing, as a share of what the limits cost
# shared_serve = "best" # send the best found even if it loses more; else all take the fallback

[columns]
ignore = ["pattern"]

[forecaster]
name = "unbiased_ridge"
paths = 60
floor = 0.0

[backtest]
periods = 14
warmup = 7
# cluster = "store"     # the column of the states whose values are units of the intervals; default: trucks
"""


def write_samples(folder: Path) -> None:
    demand = sample_demand(count=PRODUCTS, horizon=HORIZON)

    def state_rows() -> Iterator[Sequence[Any]]:
        for i, (one, state) in enumerate(zip(demand.series, sample_states(demand), strict=True)):
            litres, truck = LITRES[i % len(LITRES)], TRUCKS[i % len(TRUCKS)]
            pack = max(2, 4 * round(PACK_DAYS * float(one.train[-28:].mean()) / 4.0))
            yield [one.id, one.category, round(0.3 * state.on_hand), pack, litres, truck]

    write_forecasts(folder / "forecasts.csv", demand)
    head = {"series": str, "pattern": str, "on_hand": int, "case_pack": int, "litres": float, "truck": str}
    write_table(folder / "states.csv", head, state_rows)
    write_sales(folder / "sales.csv", demand)
