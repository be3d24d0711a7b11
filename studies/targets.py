"""Fill rates of 0.90, 0.95 and 0.98 on M5 items: penalties found by `tune` on the earlier history, then replayed.

python -m studies.targets                # 180 items, 60 of each target, of stores that no setting was fitted on
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np

from ucsearch.lab.data.m5 import M5_FIRST_DAY, M5_MORE, load_m5
from ucsearch.planner.backtest.achieved import achieved
from ucsearch.planner.backtest.replay import Replay, read_histories
from ucsearch.planner.backtest.resume import Kept, Parts
from ucsearch.planner.backtest.targets import tune_targets
from ucsearch.planner.files.penalties import write_penalties
from ucsearch.planner.files.sales import History, Sales
from ucsearch.planner.history import with_season
from ucsearch.planner.settings import Settings, parse_settings

TARGETS = (0.90, 0.95, 0.98)
EACH = 60  # items of a target
EARLIER = COUNTED = 56
LEAST = 0.3  # units a day, below which an item has hardly any orders to count
SETTINGS = """
period = "day"
[task]
name = "lead_time_inventory"
lead_time = 1
holding = 0.10
fixed_cost = 4.0
fill_rate = 0.95
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


def items(count: int, seed: int = 37) -> Sales:
    """So many items of the other stores, drawn among those that sell enough."""
    found = [s for s in load_m5(stores=M5_MORE, leading="trim").series if len(s.y) > 400 and s.y.mean() >= LEAST]
    chosen = np.random.default_rng(seed).permutation(len(found))[:count]
    histories = []
    for i in sorted(chosen.tolist()):
        y = found[i].y
        last = np.datetime64(M5_FIRST_DAY, "s") + np.timedelta64(446, "D")
        histories.append(History(found[i].id, y, last - np.timedelta64(len(y) - 1, "D"), last))
    return Sales(tuple(histories), (), "day", file="m5")


def run(folder: Path, sales: Sales) -> None:
    settings: Settings = parse_settings(SETTINGS.format(periods=COUNTED).encode(), str(folder / "ucsearch.toml"))
    settings = with_season(settings, sales)
    states = folder / "states.csv"
    with states.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["series", "on_hand", "fill_rate"])
        rows.writerows([h.series, 0, TARGETS[i % len(TARGETS)]] for i, h in enumerate(sales.histories))
    histories, problems = read_histories(settings, sales, states, tuned=False)
    for problem in problems:
        print(problem)
    parts = Parts(Kept(None, "targets", {}), None)
    penalties, notes = tune_targets(parts, settings, histories, EARLIER)
    print("\n".join(notes))
    write_penalties(folder / "targets.csv", penalties)
    histories, _ = read_histories(settings, sales, states)

    def work(part: list[object]) -> dict[str, np.ndarray]:
        replay = Replay(part, settings, parts.tick)  # type: ignore[arg-type]
        track = replay.track(replay.walk(replay.policy()))
        return {"got": track["served"].sum(axis=1), "asked": track["demand"].sum(axis=1)}

    found = parts.by_part("later", histories, work, 1)  # type: ignore[arg-type]
    targets = np.array([float(h.case.config.target) for h in histories])
    promised = {series: penalty.promised for series, penalty in penalties}
    below = {series: penalty.below for series, penalty in penalties}
    for one in achieved(targets, found["got"], found["asked"]):
        own = [h.series for h, target in zip(histories, targets, strict=True) if target == one.target]
        steps = np.mean([promised[s] for s in own]), np.nanmean([below[s] for s in own])
        print(f"{one.text()}; promised {steps[0]:.4f}, next lower step {steps[1]:.4f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), items(EACH * len(TARGETS)))


if __name__ == "__main__":
    main()
