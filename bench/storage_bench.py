"""Storage on the GEFCom 2014 prices: the default settings against planning with a solver, hour by hour.

python -m bench.storage_bench [DAYS] [OFFSET]    needs UCSEARCH_DATA and HiGHS (the extra `lp`)

A battery of 4 MWh and 2 MW is decided anew every hour, 24 hours ahead, from forecasts made of earlier prices only. All
earn at the real prices; what is left at the end counts at the last forecast's value.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ucsearch as uc
from ucsearch.backtest import Certified, Deterministic, Panel, PriceRule, Stretch
from ucsearch.backtest.linear import LinearStorage
from ucsearch.backtest.walk import walk
from ucsearch.forecast.ridge import RidgePaths
from ucsearch.tasks import Storage
from ucsearch.trace import Trace

FILE = "electricity_price/gefcom2014_price_hourly.csv.gz"
DEPTH, SEASON, HISTORY = int(os.environ.get("DEPTH", "24")), 24, 24 * 90
BATTERY: dict[str, Any] = dict(capacity=4.0, wear=1.0)
QUANTILES = (0.25, 0.4, 0.5, 0.6, 0.75)


def prices() -> np.ndarray:
    with gzip.open(Path(os.environ["UCSEARCH_DATA"]) / FILE, "rt") as file:
        return np.array([float(row["zonal_price"]) for row in csv.DictReader(file)])


def panel_of(y: np.ndarray, start: int, hours: int, config: Storage, members: np.ndarray) -> Panel:
    task, layout_state = config.task(), config.state(2.0)
    layout = task.layout(layout_state)
    marks = np.arange(start - 1, start - 1 + hours)
    future = y[np.minimum(marks[:, None] + 1 + np.arange(DEPTH), len(y) - 1)]
    rows = task.params_layout

    def grid(trace: Trace) -> Any:
        p = config.params()
        return None, rows.rows(p._replace(**config.forecast_columns(trace, p)), "params") if rows else None

    return Panel(
        task, config, layout, np.array([layout.flatten(layout_state, "state")]),
        (Stretch("", "market", 0, start, hours, SEASON, y, 1.0),), members[None], y[start : start + hours][None],
        future[None], (y[:start],), "ridge_paths", grid, None,
    )  # fmt: skip


def measure(days: int = 60, offset: int = 700) -> dict[str, dict[str, float]]:
    y = prices()[24 * offset - HISTORY : 24 * (offset + days)]
    hours = 24 * days
    start = len(y) - hours
    marks = np.arange(start - 1, start - 1 + hours, dtype=np.int64)
    made = RidgePaths(paths=30).forecast(y, marks, horizon=DEPTH, season=SEASON, stream=np.uint64(1))
    members = np.asarray(made.expand().members)
    exact = uc.Exact(depth=DEPTH, node_budget=200_000)
    rows: dict[str, dict[str, float]] = {}

    def one(name: str, config: Storage, make: Callable[[Storage], Any]) -> None:
        begin = time.perf_counter()
        done = walk(panel_of(y, start, hours, config, members), make(config))
        released = done.certificate.get("released")
        rows[name] = {
            "profit": float(done.rewards.sum()),
            "released": float("nan") if released is None else float(released.mean()),
            "ms": 1e3 * (time.perf_counter() - begin) / hours,
        }

    forecast: dict[str, Any] = dict(end_price="forecast")
    lattice: dict[str, Any] = dict(power=2.0, level_step=0.1)
    for q in QUANTILES:
        config = Storage(**BATTERY, **lattice, **forecast, end_quantile=q)
        one(f"default, end quantile {q:g}", config, lambda c: Certified(c.task(), exact, node_budget=200_000))
    for q in QUANTILES:
        one(f"HiGHS on the mean, {q:g}", Storage(**BATTERY, **forecast, end_quantile=q), LinearStorage)
    plain = Storage(**BATTERY, **lattice)
    one("no end value", plain, lambda c: Certified(c.task(), exact, node_budget=200_000))
    one("HiGHS, no end value", Storage(**BATTERY), LinearStorage)
    config = Storage(**BATTERY, **lattice, **forecast)
    one("planning on the 0.6 fractile", config, lambda c: Deterministic(c.task(), exact, quantile=0.6))
    one("price rule", config, lambda c: PriceRule())
    return rows


def main() -> None:
    days, offset = (int(x) for x in (sys.argv[1:] + ["60", "700"][len(sys.argv) - 1 :])[:2])
    print(f"{days} days from day {offset} on; USD, released, ms a decision")
    for name, row in measure(days, offset).items():
        print(f"{name:32} {row['profit']:10.1f} {100.0 * row['released']:7.1f} % {row['ms']:8.2f}")


if __name__ == "__main__":
    main()
