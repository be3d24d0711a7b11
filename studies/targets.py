"""Fill rates of 0.90, 0.95 and 0.98 on M5 items: penalties found by `tune` on the earlier history, then replayed.

Every item has every target in turn. Items of development are those that somebody has looked at.

    python -m studies.targets --seed 1                 # of development
    python -m studies.targets --seed 3737 --fresh      # that nobody had looked at
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np

from studies.m5_items import drawn, sales_of
from ucsearch.planner.backtest.replay import History, Replay, read_histories
from ucsearch.planner.backtest.result import achieved
from ucsearch.planner.backtest.resume import Arrays, Kept, Parts
from ucsearch.planner.backtest.targets import tune_targets
from ucsearch.planner.files.penalties import write_penalties
from ucsearch.planner.files.sales import Sales
from ucsearch.planner.history import with_season
from ucsearch.planner.settings import Settings, parse_settings

TARGETS = (0.90, 0.95, 0.98)
COUNTED = 56
SETTINGS = """
period = "day"
[task]
name = "lead_time_inventory"
lead_time = 1
holding = 0.10
fixed_cost = 4.0
fill_rate = {target}
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


def run(folder: Path, sales: Sales, target: float, earlier: int) -> str:
    """What the items reach of one target, in a sentence."""
    text = SETTINGS.format(target=target, periods=COUNTED)
    settings: Settings = with_season(parse_settings(text.encode(), str(folder / "ucsearch.toml")), sales)
    states = folder / "states.csv"
    with states.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerows([["series", "on_hand"], *([h.series, 0] for h in sales.histories)])
    histories, problems = read_histories(settings, sales, states, tuned=False)
    if problems:
        raise RuntimeError(str(problems[0]))
    parts = Parts(Kept(None, "targets", {}), None)
    penalties, notes = tune_targets(parts, settings, histories, earlier)
    write_penalties(folder / "targets.csv", penalties)
    histories, _ = read_histories(settings, sales, states)

    def work(part: list[History]) -> Arrays:
        replay = Replay(part, settings, parts.tick)
        track = replay.track(replay.walk(replay.policy()))
        return {"got": track["served"].sum(axis=1), "asked": track["demand"].sum(axis=1)}

    found = parts.by_part("later", histories, work, 1)
    one = achieved(np.full(len(histories), target), found["got"], found["asked"])[0]
    promised = np.mean([penalty.promised for _, penalty in penalties])
    return f"{one.text()}; promised {promised:.4f}\n  {notes[-1]}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.targets", description=__doc__)
    parser.add_argument("--items", type=int, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="of items that nobody has looked at")
    parser.add_argument("--earlier", type=int, default=COUNTED, help="days before that penalties are found on")
    given = parser.parse_args()
    sales = sales_of(drawn(given.items, given.seed, fresh=given.fresh))
    for target in TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            print(run(Path(folder), sales, target, given.earlier), flush=True)


if __name__ == "__main__":
    main()
