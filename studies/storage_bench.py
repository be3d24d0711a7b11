"""Storage on the GEFCom 2014 prices: the default settings against planning with a solver, hour by hour.

python -m studies.storage_bench [DAYS] [OFFSET]    needs UCSEARCH_DATA and HiGHS (the extra `lp`)

A store of 2 MW is decided anew every hour from forecasts made of earlier prices only. All earn at the real prices; what
is left at the end counts at the last forecast's value, for everybody.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ucsearch as uc
from ucsearch.forecast.ridge import RidgePaths
from ucsearch.replay import Certified, Panel, Stretch
from ucsearch.replay.linear import LinearStorage
from ucsearch.replay.walk import walk
from ucsearch.student import student_quantile
from ucsearch.tasks import Storage
from ucsearch.trace import Trace

FILE = "electricity_price/gefcom2014_price_hourly.csv.gz"
SEASON, HISTORY = 24, 24 * 90
CASES = ((4.0, 24), (4.0, 6), (16.0, 24), (16.0, 12))  # capacity in MWh, hours planned ahead


def prices() -> np.ndarray:
    with gzip.open(Path(os.environ["UCSEARCH_DATA"]) / FILE, "rt") as file:
        return np.array([float(row["zonal_price"]) for row in csv.DictReader(file)])


def panel_of(y: np.ndarray, start: int, hours: int, config: Storage, members: np.ndarray) -> Panel:
    task, begin = config.task(), config.state(config.capacity / 2.0)
    layout, rows = task.layout(begin), task.params_layout
    marks = np.arange(start - 1, start - 1 + hours)
    future = y[np.minimum(marks[:, None] + 1 + np.arange(members.shape[2]), len(y) - 1)]

    def grid(trace: Trace) -> Any:
        p = config.params()
        return None, rows.rows(p._replace(**config.forecast_columns(trace, p)), "params") if rows else None

    return Panel(
        task, config, layout, np.array([layout.flatten(begin, "state")]),
        (Stretch("", "market", 0, start, hours, SEASON, y, 1.0),), members[None], y[start : start + hours][None],
        future[None], (y[:start],), "ridge_paths", grid, None,
    )  # fmt: skip


def measure(days: int, offset: int) -> Iterator[dict[str, Any]]:
    y = prices()[24 * offset - HISTORY : 24 * (offset + days)]
    hours = 24 * days
    start = len(y) - hours
    marks = np.arange(start - 1, start - 1 + hours, dtype=np.int64)
    made = RidgePaths(paths=30).forecast(y, marks, horizon=24, season=SEASON, stream=np.uint64(1))
    members = np.asarray(made.expand().members)
    for capacity, depth in CASES:
        exact = uc.Exact(depth=depth, node_budget=200_000)
        store: dict[str, Any] = dict(capacity=capacity, wear=1.0)
        lattice: dict[str, Any] = dict(store, power=2.0, level_step=0.1)
        ends: dict[str, dict[str, Any]] = {
            "forecast": dict(end_price="forecast"), "none": {},
        }  # fmt: skip
        worth = Storage(**store, **ends["forecast"])
        for end, more in ends.items():
            for name, config in (("certified", Storage(**lattice, **more)), ("HiGHS", Storage(**store, **more))):
                chooser: Any = LinearStorage(config)
                if name == "certified":
                    chooser = Certified(config.task(), exact, proof=uc.Proof(node_budget=200_000))
                begin = time.perf_counter()
                panel = panel_of(y, start, hours, config, members[:, :, :depth])
                done = walk(panel, chooser)
                ms = 1e3 * (time.perf_counter() - begin) / hours
                last = panel.trace(hours - 1)
                value = float(worth.forecast_columns(last, worth.params())["end_value"][0])
                own = float(panel.grids(last)[1][0, list(type(config.params())._fields).index("end_value")])  # type: ignore[index]
                left = float(done.states[0, -1, 0])
                released = done.certificate.get("released")
                profit = float(done.rewards.sum()) + (value - (own if config.has_terminal else 0.0)) * left
                yield dict(
                    capacity=capacity, depth=depth, end=end, name=name, profit=profit, ms=ms,
                    released=float("nan") if released is None else float(released.mean()),
                    daily=done.rewards[0].reshape(-1, 24).sum(axis=1),
                )  # fmt: skip


def main() -> None:
    given = [*sys.argv[1:], *["60", "700"][len(sys.argv) - 1 :]]
    days, offset = int(given[0]), int(given[1])
    print(f"{days} days from day {offset} on")
    print("capacity  depth  end value  planner     profit [USD]  released  ms/decision")
    before: Any = None
    for r in measure(days, offset):
        share = "" if r["released"] != r["released"] else f"{100.0 * r['released']:.1f} %"
        row = f"{r['capacity']:8g} {r['depth']:6d}  {r['end']:9}  {r['name']:9} {r['profit']:14,.1f}"
        print(f"{row} {share:>9} {r['ms']:12.2f}", flush=True)
        if r["name"] == "HiGHS":
            gain = before["daily"] - r["daily"]
            half = student_quantile(0.975, days - 1) * float(gain.std(ddof=1)) / days**0.5
            mean = float(gain.mean())
            print(f"{'':26}certified - HiGHS {mean:+.3f} USD a day [{mean - half:+.3f}, {mean + half:+.3f}], by day")
        before = r


if __name__ == "__main__":
    main()
