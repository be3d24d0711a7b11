"""`ucsearch new bakery`: bread that is baked every night and sold on two days; settings and sample files that work at
once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ucsearch.planner.files.table import write_table
from ucsearch.planner.new.inventory import NOW, write_sales
from ucsearch.planner.new.sample import weekly

__all__ = ["COMMANDS", "FILES", "SETTINGS", "write_samples"]

FILES = ("ucsearch.toml", "states.csv", "sales.csv")
COMMANDS = (
    "ucsearch forecast",
    f"ucsearch decide --now {NOW}",
    "ucsearch explain rye",
    "ucsearch orders",
    "ucsearch backtest",
)
BREADS = {
    "rye": 30.0,
    "baguette": 55.0,
    "brioche": 20.0,
    "sourdough": 40.0,
    "spelt": 25.0,
    "ciabatta": 35.0,
}  # loaves a day

SETTINGS = """\
# Settings of a bakery. Lines with a # show alternatives; `ucsearch tasks --schema` lists every key.

units = "loaves"
currency = "EUR"
period = "day"

[files]                 # beside this file; every command reads and writes these
sales = "sales.csv"
states = "states.csv"
forecasts = "forecasts.csv"     # written by `ucsearch forecast`, read by `decide`
decisions = "decisions.csv"
log = "decisions.db"            # the audit log
orders = "orders.csv"           # written by `ucsearch orders`: what to bake
pages = "pages"                 # every command writes a page there

[task]
name = "lead_time_inventory"
lead_time = 1           # decided today, on the shelf tomorrow morning
shelf_life = 2          # days on which a loaf can be sold
issuing = "lifo"        # customers take the freshest first; "fifo": the oldest
price = 3.00            # EUR per loaf sold
unit_cost = 1.00        # EUR per loaf baked
order_sizes = [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120]   # loaves; 10 on a tray
disposal = 0.10         # EUR per loaf thrown away
holding = 0.02          # EUR per loaf kept overnight
shortage = 0.50         # EUR per loaf asked for and not there, besides the sale

[policy]
name = "exact"
mode = "closed"         # plans that react to what is sold
depth = 4               # days planned ahead

[gate]
certificate = true

[forecaster]
name = "unbiased_ridge"
paths = 60
floor = 0.0

[backtest]
periods = 28
warmup = 7
"""


def write_samples(folder: Path) -> None:
    demand = weekly(BREADS)

    def state_rows() -> Iterator[Sequence[Any]]:
        for one in demand.series:
            mean = float(one.train[-28:].mean())
            yield [one.id, round(0.2 * mean), round(0.2 * mean), round(mean)]

    head = {"series": str, "on_hand": int, "ages_1": int, "open_orders_1": float}
    write_table(folder / "states.csv", head, state_rows)
    write_sales(folder / "sales.csv", demand)
