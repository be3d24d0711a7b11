"""What a newcomer gets on retail items nobody has looked at: the settings of `ucsearch new`, nothing tuned.

Items of TX_1, TX_2 and WI_1 that neither `studies.retail` nor a suite in the ledger of looks has used, the last 28 of
447 days (7 more to warm up), by the replay of `ucsearch backtest`. Two questions:

    python -m studies.newcomer --items 30               # against rules, and against forecasts as they were before
    python -m studies.newcomer --items 30 --fallbacks   # a share of decisions forced to fall back, against base-stock

A delta is (their cost - ours) / (sum of both), with a 95 % interval by item.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from studies.retail import TESTED_ON, items
from ucsearch.lab.data import load_m5
from ucsearch.planner.backtest.replay import Replay, read_histories
from ucsearch.planner.history import with_season
from ucsearch.planner.new.inventory import INVENTORY
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.replay.walk import Choice, Chooser, Seen
from ucsearch.student import student_quantile

CASES = {"lots": (4.0, 3.0), "plain": (0.0, 0.0)}  # fixed cost [EUR] and pack [pieces]
SHARES = (0.0, 0.25, 0.5, 1.0)
LEDGER = Path(__file__).parent.parent / "evidence" / "looks.jsonl"
SEED = 2026


def fresh(store: str, count: int) -> list[tuple[str, Any]]:
    """Items that sell half a unit a day or more, drawn by chance from those not looked at."""
    seen = {name for name, _ in items(store, 60, 7)}
    for line in LEDGER.read_text().splitlines():
        seen |= set(json.loads(line)["opened"].get("m5", {}))
    found = [
        (s.id, s.y) for s in load_m5(stores=(store,)).series if s.y[-130:-70].mean() >= 0.5 and s.id not in seen
    ]  # fmt: skip
    chosen = np.sort(np.random.default_rng(SEED).choice(len(found), min(count, len(found)), replace=False))
    return [found[i] for i in chosen]


def settings_of(case: str, forecaster: str = "unbiased_ridge") -> Settings:
    fixed, pack = CASES[case]
    text = INVENTORY.replace("fixed_cost = 4.00", f"fixed_cost = {fixed}\ncase_pack = {pack}")
    return parse_settings(text.replace('name = "auto"', f'name = "{forecaster}"').encode())


def replay_of(settings: Settings, file: Path) -> Replay:
    settings = with_season(settings, file)
    found, problems = read_histories(settings, file, None)
    if problems:
        raise RuntimeError(str(problems[0]))
    return Replay(found, settings)


def delta(own: Any, other: Any) -> str:
    d = (other - own) / (other + own)
    half = student_quantile(0.975, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d))
    return f"{d.mean():+.4f} [{d.mean() - half:+.4f}, {d.mean() + half:+.4f}]"


class Forced:
    """The policy, but a drawn share of its decisions falls back."""

    def __init__(self, policy: Chooser, share: float) -> None:
        self.policy, self.share = policy, share

    def __call__(self, seen: Seen) -> Choice:
        made = self.policy(seen)
        away = np.random.default_rng([SEED, seen.t]).random(len(seen.rows)) < self.share
        return Choice(np.where(away, np.nan, made.action), made.expansions)


def compare(case: str, file: Path) -> None:
    own, rivals = None, {}
    for name in ("unbiased_ridge", "ridge_paths"):
        replay = replay_of(settings_of(case, name), file)
        done = replay.walk(replay.policy())
        cost, track = replay.counted_cost(done), replay.track(done)
        fill = track["served"].sum() / track["demand"].sum()
        print(f"{case}: policy on {name}: cost {cost.sum():.1f}, fill {fill:.3f}, released "
              f"{done.certificate['released'].mean():.3f}", flush=True)  # fmt: skip
        if own is None:
            own = cost
            for rule in ("(s,S)", "base-stock", "planning on a quantile", "planning on the mean", "newsvendor"):
                rivals[rule] = replay.counted_cost(replay.walk(replay.rules[rule].make()))
        else:
            rivals["the policy on ridge_paths"] = cost
    for name, cost in rivals.items():
        print(f"{case}: against {name}: {delta(own, cost)}", flush=True)


def forced(case: str, file: Path) -> None:
    replay = replay_of(settings_of(case), file)
    rival = replay.counted_cost(replay.walk(replay.rules["base-stock"].make()))
    for share in SHARES:
        cost = replay.counted_cost(replay.walk(Forced(replay.policy(), share)))
        print(f"{case}: {100 * share:.0f} % fallbacks: cost {cost.sum():.1f}, base-stock {rival.sum():.1f}, "
              f"{delta(cost, rival)}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.newcomer", description=__doc__)
    parser.add_argument("--items", type=int, default=30, help="per store")
    parser.add_argument("--fallbacks", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        file = Path(folder) / "sales.csv"
        rows = [
            f"{name},{t + 1},{y:g}" for s in TESTED_ON for name, v in fresh(s, given.items) for t, y in enumerate(v)
        ]
        file.write_text("\n".join(["series,step,demand", *rows]) + "\n")
        for case in CASES:
            (forced if given.fallbacks else compare)(case, file)


if __name__ == "__main__":
    main()
