"""`ucsearch new`: a commented settings file and small sample files that work at once; here for inventory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.lab.data.embedded import sample_demand, sample_states
from ucsearch.lab.data.records import SeriesSet
from ucsearch.planner.files.table import write_table
from ucsearch.planner.new.switches import (
    check_switches,
    commands_with,
    files_with,
    settings_with,
    write_switched,
)
from ucsearch.planner.settings.reading import USUAL_NAME
from ucsearch.records.files import whole_file

__all__ = ["KINDS", "next_commands", "write_forecasts", "write_sales", "write_scaffold"]

KINDS = (
    "inventory",
    "truck",
    "bakery",
    "spares",
    "storage",
    "capacity",
    "intervention",
)  # the others are modules of their own
FIRST_DAY = date(2024, 1, 1)  # a Monday, as the sample's week begins with one
NOW = "2024-05-20"  # the day after the sample ends
SERIES = 8
HORIZON = 14
SAMPLES = ("forecasts.csv", "states.csv", "sales.csv")

INVENTORY = """\
# Settings of an ordering job. Lines with a # show defaults or alternatives; `ucsearch tasks --schema` lists every key
# and `ucsearch tasks` every task. Unknown keys are refused, so a typing error cannot go unnoticed.

units = "pieces"        # what quantities are counted in
currency = "EUR"        # what costs are counted in
period = "day"          # step of dates: 15min, 30min, hour, day, weekday, week, month; any: only ascending

[files]                 # beside this file; every command reads and writes these
sales = "sales.csv"
states = "states.csv"
forecasts = "forecasts.csv"     # written by `ucsearch forecast`, read by `decide`
decisions = "decisions.csv"
log = "decisions.db"            # the audit log
orders = "orders.csv"           # written by `ucsearch orders`; or orders.xlsx
pages = "pages"                 # every command writes a page there; left out: none
# archive = "archive.parquet"   # past forecasts and outcomes, for [forecast] recalibrate

[task]
name = "lead_time_inventory"
lead_time = 2           # periods from order to delivery, 0 to 12; a lead_time column in the states file replaces it
unmet = "lost"          # "lost": demand that is not met is gone; "backordered": it waits
holding = 0.10          # EUR per piece left at the end of a period
shortage = 2.00         # EUR per piece short
fixed_cost = 4.00       # EUR per order
# unit_cost = 0.0       # EUR per piece ordered
# price = 0.0           # EUR per piece sold; 0: only costs are counted
# capacity = 500.0      # pieces in stock and on order together
# ramp = 100.0          # pieces by which an order may differ from the one before
# minimum_order = 0.0   # pieces
# case_pack = 0.0       # pieces; orders are rounded up to whole packs

[actions]
# Order sizes that are tried for each series: 0, and this many up to two economic batches of its own demand.
# Or give fixed sizes, order_sizes = [0.0, 10.0, 20.0] under [task].
lots = 8
round_to = 1.0          # whole pieces

[policy]
name = "exact"          # proves the best of the sizes offered; or a heuristic: uc_beam, certified_beam, mcts, ...
mode = "closed"         # plans that react to what is sold; "members": one fixed plan for all members of the forecast
depth = 8               # periods planned ahead, the lead time and two or more; forecasts must reach that far

[proof]
node_budget = 5000000   # effort per decision before it counts as not proved

[gate]
certificate = true      # send only what is proved best among the sizes offered; else the fallback
# regret_limit = 5.0    # EUR that may be lost against the best plan of the sizes offered at most
# max_trace_age_s = 86400.0   # refuse forecasts older than a day (needs a column `issued`)

[forecast]
model = "sample"        # name of your forecaster for the record, where the file has no column `model`
# steps = 14            # use only so many steps
# recalibrate = "rolling"   # correct members by weekday, from past forecasts: needs files.archive

[columns]
# Names in your files; the names on the left are ours.
# series = "sku"
# rename = { stock = "on_hand" }      # states file: your name = our name
ignore = ["pattern"]    # columns of yours to ignore

[forecaster]            # used by `ucsearch forecast`, `calibrate` and `backtest`
name = "auto"           # by each series' past: smoothing, unbiased_ridge or bootstrap (intermittent demand); or one of
                        # these, ridge_paths, ridge_ensemble, seasonal_naive
paths = 100             # sample paths; with few of them a rare large demand comes and goes from day to day
floor = 0.0             # demand is never negative

[backtest]
periods = 28            # periods that are counted
warmup = 7              # periods before them
# season = 7            # periods of a season; left out: the usual one of `period`, if the history holds three of them
"""


def write_scaffold(
    kind: str, folder: str | Path, *, force: bool = False, switches: Sequence[str] = ()
) -> tuple[Path, ...]:
    """Write the settings and sample files of a kind; files that are there are left alone unless `force`. `switches`:
    rules that not every inventory has, of `SWITCHES`."""
    if kind not in KINDS:
        raise InputError("kind", repr(kind), f"one of {', '.join(map(repr, KINDS))}")
    check_switches(switches)
    if switches and kind != KINDS[0]:
        raise InputError("--with", ", ".join(switches), f"nothing for {kind}: these are rules of an inventory")
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be made ({error.strerror})") from error
    other = None if kind == KINDS[0] else _module(kind)
    names = (USUAL_NAME, *SAMPLES, *files_with(switches)) if other is None else other.FILES
    paths = tuple(folder / name for name in names)
    there = [str(p) for p in paths if p.exists()]
    if there and not force:
        raise DataError(
            f"{', '.join(there)}: there already; `ucsearch new {kind} FOLDER` writes into another folder, "
            "--force replaces them"
        )
    with whole_file(paths[0]) as file:
        text = settings_with(INVENTORY, switches) if switches else INVENTORY
        file.write((text if other is None else other.SETTINGS).encode())
    if other is None:
        _write_samples(paths[1], paths[2], paths[3])
        if switches:
            write_switched(folder, sample_demand(count=SERIES, horizon=HORIZON), switches)
    else:
        other.write_samples(folder)
    return paths


def _module(kind: str) -> Any:
    """FILES, SETTINGS, COMMANDS and `write_samples(folder)` of a kind."""
    return import_module(f"ucsearch.planner.new.{kind}")


def next_commands(kind: str = KINDS[0], switches: Sequence[str] = ()) -> tuple[str, ...]:
    """What to type next, in the folder that was written."""
    if switches:
        return commands_with(next_commands(), switches)
    if kind != KINDS[0]:
        return tuple(_module(kind).COMMANDS)
    return (
        f"ucsearch decide --now {NOW}",
        "ucsearch orders",
        "ucsearch backtest",
        "ucsearch explain SKU-006",
    )


def _write_samples(forecasts: Path, states: Path, sales: Path) -> None:
    demand = sample_demand(count=SERIES, horizon=HORIZON)

    def state_rows() -> Iterator[Sequence[Any]]:
        for one, state in zip(demand.series, sample_states(demand), strict=True):
            orders = [*state.on_order, None, None, None][:3]
            yield [one.id, one.category, round(0.4 * state.on_hand), *orders, state.lead_time]

    write_forecasts(forecasts, demand)
    open_orders = {f"open_orders_{i}": float for i in (1, 2, 3)}
    head = {"series": str, "pattern": str, "on_hand": int, **open_orders, "lead_time": int}
    write_table(states, head, state_rows)
    write_sales(sales, demand)


def write_forecasts(path: Path, demand: SeriesSet) -> None:
    """Sample paths of two weeks for every series."""
    first = seasonal_paths(demand.series[0].train)
    members = {f"member_{j + 1}": float for j in range(first.shape[0])}

    def rows() -> Iterator[Sequence[Any]]:
        for one in demand.series:
            paths = seasonal_paths(one.train)
            for h in range(HORIZON):
                yield [one.id, _day(one.n_train + h), *paths[:, h].tolist()]

    write_table(path, {"series": str, "date": str, **members}, rows)


def write_sales(path: Path, demand: SeriesSet) -> None:
    """What every series sold, day by day."""

    def rows() -> Iterator[Sequence[Any]]:
        for one in demand.series:
            for t, y in enumerate(one.train.tolist()):
                yield [one.id, _day(t), y]

    write_table(path, {"series": str, "date": str, "demand": float}, rows)


def _day(t: int) -> str:
    return (FIRST_DAY + timedelta(days=t)).isoformat()


def seasonal_paths(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """(J, 14) whole-unit paths: the last week twice, changed as past pairs of weeks changed after theirs."""
    weeks = y[len(y) % 7 :].reshape(-1, 7)
    change = np.diff(weeks, axis=0)
    first, second = change[:-1], change[:-1] + change[1:]
    paths: NDArray[np.float64] = np.maximum(np.tile(weeks[-1], 2) + np.concatenate([first, second], axis=1), 0.0)
    return paths
