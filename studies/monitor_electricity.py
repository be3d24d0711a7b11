"""A log and outcomes of real series for `ucsearch monitor`: how much power to reserve for tomorrow, day by day.

    python studies/monitor_electricity.py FOLDER      # needs UCSEARCH_DATA (or --data)
    ucsearch monitor FOLDER/decisions.db --outcomes FOLDER/outcomes.csv --html FOLDER/monitor.html

Six electricity clients at two hours of the day, forecast by ridge paths on all days before, walking forward.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ucsearch as uc
from ucsearch.decision import Filing
from ucsearch.forecast import RidgePaths
from ucsearch.forecast.streams import series_stream
from ucsearch.lab.data import load_ltsf

HOURS = (8, 19)
PATHS = 100
WARM_UP = 120  # days before the first decision
SEED = 7
SHARES = (0.8, 0.9, 1.0, 1.1, 1.2, 1.4)


class Day(NamedTuple):
    expected: float


class Costs(NamedTuple):
    short: float


def feasible(s: Day, a: float, p: Costs) -> bool:
    return a >= 0.0


def step(s: Day, a: float, y: float, p: Costs) -> Day:
    return s


def reward(s: Day, a: float, y: float, p: Costs) -> float:
    return -(a * s.expected) - p.short * max(0.0, y - a * s.expected)


def fallback(s: Day, p: Costs) -> float:
    return 1.4


TASK = uc.Task(
    name="reserve", state=Day, params=Costs(9.0), actions=SHARES,
    feasible=feasible, step=step, reward=reward, fallback=fallback,
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=None)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    loaded = load_ltsf("electricity", data_dir=args.data)
    policy = uc.Exact(depth=1, risk=0.0, mode="members")
    with (
        uc.AuditLog(args.folder / "decisions.db") as log,
        (args.folder / "outcomes.csv").open("w", newline="") as file,
    ):
        out = csv.writer(file)
        out.writerow(["series", "date", "value"])
        times = loaded.time.astype("datetime64[h]")
        for client in loaded.columns:
            for hour in HOURS:
                at = times.astype(np.int64) % 24 == hour
                y, days = loaded.column(client)[at], times[at].astype("datetime64[D]")
                name = f"client {client}, {hour:02d}:00"
                out.writerows([name, str(d), repr(float(v))] for d, v in zip(days, y, strict=True))
                cutoffs = np.arange(WARM_UP, y.size - 1, dtype=np.int64)
                made = RidgePaths(paths=PATHS).forecast(
                    y, cutoffs, horizon=1, season=7, stream=series_stream(SEED, name)
                )
                trace = uc.Trace.from_members(made.members, model=made.model, cutoff=[str(days[t]) for t in cutoffs])
                states = [Day(float(m)) for m in made.members.mean(axis=(1, 2))]
                uc.decide_panel(TASK, states, trace, policy, run=uc.Run(engine="python"), log=Filing(log, series=name))
                print(f"{name}: {cutoffs.size} decisions")


if __name__ == "__main__":
    main()
