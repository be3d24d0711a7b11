"""What a known future, and days whose demand is not known, change in the realised cost of the default policy on M5
items: SNAP days (real demand), a simulated promotion, and simulated stock-outs whose demand is known.

    python -m studies.known_future --items 180
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies.m5_items import drawn, sales_of
from ucsearch.lab.data.m5 import M5_FIRST_DAY
from ucsearch.lab.data.resolve import resolve
from ucsearch.planner.backtest.replay import History, Replay, read_histories
from ucsearch.planner.files.sales import Sales
from ucsearch.planner.history import prepare, with_season
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.replay.statistics import paired

Floats = NDArray[np.float64]
COUNTED = 56  # days
SETTINGS = """
period = "day"
[task]
name = "lead_time_inventory"
lead_time = 1
holding = 0.10
shortage = 2.0
fixed_cost = 4.0
[actions]
lots = 8
round_to = 1.0
[policy]
name = "exact"
mode = "closed"
depth = 8
[proof]
node_budget = 5000000
[forecaster]
name = "auto"
paths = 100
floor = 0.0
[backtest]
periods = {periods}
warmup = 7
"""


def snap_days(path: Path, days: int) -> dict[str, Floats]:
    """(days,) by state, 1 where benefits are paid out."""
    with gzip.open(path, "rt", newline="") as file:
        rows = {row["date"]: row for row in csv.DictReader(file)}
    dates = [str(np.datetime64(M5_FIRST_DAY) + i) for i in range(days)]
    last = rows[max(rows)]
    return {s: np.array([float(rows.get(d, last)[f"snap_{s}"]) for d in dates]) for s in ("CA", "TX", "WI")}


def cost(settings: Settings, histories: list[History], members: Floats) -> Floats:
    """(S,) of the default policy on these forecasts."""
    replay = Replay(histories, settings, members=members)
    return replay.counted_cost(replay.walk(replay.policy()))


def forecasts(
    settings: Settings, histories: list[History], seen: list[Floats], known: list[Floats | None], length: int
) -> Floats:
    """(S, O, J, H) from what was seen."""
    how = prepare(settings, config=histories[0].case.kind.config)
    paths = []
    for h, y, x in zip(histories, seen, known, strict=True):
        cutoffs = np.arange(len(y) - length - 1, len(y) - 1, dtype=np.int64)
        paths.append(how.forecasts(h.series, y, cutoffs, known=x))
    return np.stack(paths)


def compare(
    name: str, settings: Settings, sales: Sales, ways: dict[str, Callable[[int, Floats], tuple[Floats, Floats | None]]]
) -> None:
    """The cost of every way to see the history; the first is what the others are held against."""
    settings = with_season(settings, sales)
    histories, _ = read_histories(settings, sales, None)
    length = settings.backtest.periods + settings.backtest.warmup
    base = None
    for way, look in ways.items():
        looked = [look(i, h.y) for i, h in enumerate(histories)]
        members = forecasts(settings, histories, [y for y, _ in looked], [x for _, x in looked], length)
        paid = cost(settings, histories, members)
        if base is None:
            base = paid
            counted = f"{len(histories)} items, {settings.backtest.periods} days"
            print(f"{name}: {way} {paid.sum():,.2f} ({counted})", flush=True)
            continue
        names = [h.series for h in histories]
        saved = paired(base / base.mean(), paid / base.mean(), names, seed=1, name=f"{name} {way}")
        told = f"{100 * saved.mean:+.2f} % [{100 * saved.low:+.2f}, {100 * saved.high:+.2f}]"
        print(f"  {way}: {paid.sum():,.2f}, saves {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.known_future", description=__doc__)
    parser.add_argument("--items", type=int, default=180)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--study", action="append", choices=sorted(STUDIES), help="repeat; left out: all")
    given = parser.parse_args()
    settings = parse_settings(SETTINGS.format(periods=COUNTED).encode(), "known_future.toml")
    sales = sales_of(drawn(given.items, given.seed, fresh=False))
    for name in given.study or STUDIES:
        STUDIES[name](settings, sales, np.random.default_rng(11))


def study_snap(settings: Settings, sales: Sales, rng: np.random.Generator) -> None:
    """Days on which benefits are paid out, with real demand."""
    snap = snap_days(resolve("m5/snap").path, 447 + 40)

    def state(i: int) -> Floats:
        h = sales.histories[i]
        store = next(s for s in ("CA", "TX", "WI") if f"_{s}_" in f"_{h.series}_")
        return snap[store][447 - len(h.y) :][:, None]

    compare("SNAP days", settings, sales, {
        "not told": lambda i, y: (y, None), "known ahead": lambda i, y: (y, state(i)),
    })  # fmt: skip


def study_promotion(settings: Settings, sales: Sales, rng: np.random.Generator) -> None:
    """Days at 2.5 times the usual demand, two in a row, a tenth of all days."""
    promotions, lifted = [], []
    for h in sales.histories:
        on = np.zeros(len(h.y) + 40)
        for start in np.flatnonzero(rng.random(on.size) < 0.05):
            on[start : start + 2] = 1.0
        promotions.append(on[:, None])
        lifted.append(h._replace(y=h.y + rng.poisson(1.5 * h.y.mean() * on[: len(h.y)])))
    compare("promotion", settings, Sales(tuple(lifted), (), "day", file="m5"), {
        "not told": lambda i, y: (y, None), "known ahead": lambda i, y: (y, promotions[i]),
    })  # fmt: skip


def study_stockouts(settings: Settings, sales: Sales, rng: np.random.Generator) -> None:
    """On 15 % of the days only 30 % of the demand was sold."""
    gone = []
    for h in sales.histories:
        out = rng.random(len(h.y)) < 0.15
        out[:30] = False
        gone.append(out)
    compare("stock-outs on 15 % of the days", settings, sales, {
        "sales as demand": lambda i, y: (np.where(gone[i], np.floor(0.3 * y), y), None),
        "marked as unknown": lambda i, y: (np.where(gone[i], np.nan, y), None),
        "demand known": lambda i, y: (y, None),
    })  # fmt: skip


STUDIES = {"snap": study_snap, "promotion": study_promotion, "stock-outs": study_stockouts}


if __name__ == "__main__":
    main()
