"""What the default settings are worth on slow and intermittent items, with several lead times, fixed costs and packs.

Items are made up (slow, intermittent, overdispersed and drifting demand, 0.15 to 4 units a day), or M5 items of two
stores that sell less than half a unit a day, which no other table has. Every rule is tuned on the 42 days before the
counted 42, by total cost, with twelve settings; ours is what `ucsearch new inventory` plans. A delta is (their cost -
ours) / (sum of both).

    python -m studies.slow_items --items 12                 # made-up items
    UCSEARCH_DATA=... python -m studies.slow_items --items 15 --m5 --case 2,20,0,5
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from studies.newcomer import delta
from ucsearch.lab.data import load_m5
from ucsearch.planner.backtest.replay import History, Replay, read_histories
from ucsearch.planner.backtest.rules import earlier_part
from ucsearch.planner.history import with_season
from ucsearch.planner.new.inventory import INVENTORY
from ucsearch.planner.settings import Settings, parse_settings

STORES = ("TX_2", "WI_1")
CASES = ("2,20,0,5", "2,4,6,2", "1,0,0,2", "5,4,0,2", "7,20,6,5", "12,20,24,5")  # lead time, fixed cost, pack, shortage
RULES = ("(s,S)", "(s,nQ)", "base-stock", "newsvendor", "planning on a quantile")
DAYS, TRIES = 447, 12
Items = list[tuple[str, Any]]


def made_up(seed: int, count: int) -> Items:
    """Four kinds of demand in turn, each with a week of its own."""
    rng, found = np.random.default_rng(seed), []
    for i in range(count):
        level = float(np.exp(rng.uniform(np.log(0.15), np.log(4.0))))
        week = np.exp(0.3 * rng.standard_normal(7))
        mean = level * np.tile(week / week.mean(), DAYS // 7 + 1)[:DAYS]
        if i % 4 == 0:
            y = rng.poisson(mean)
        elif i % 4 == 1:
            share = rng.uniform(0.08, 0.4)
            y = (rng.random(DAYS) < share) * (1 + rng.poisson(max(level / share - 1.0, 0.0), DAYS))
        elif i % 4 == 2:
            y = rng.poisson(mean * rng.gamma(1.0, 1.0, DAYS))
        else:
            drift = np.exp(0.04 * np.cumsum(rng.standard_normal(DAYS)))
            y = rng.poisson(mean * drift / drift[:300].mean())
        found.append((f"item-{seed}-{i}", y.astype(float)))
    return found


def from_stores(seed: int, count: int) -> Items:
    """Slow items, as many of each store, drawn by chance."""
    found: Items = []
    for store in STORES:
        slow = [s for s in load_m5(stores=(store,)).series if 0.15 <= s.y[-130:-70].mean() < 0.5]
        places = np.random.default_rng(seed).choice(len(slow), max(1, count // len(STORES)), replace=False)
        found += [(f"{store}-{slow[i].id}", slow[i].y[-DAYS:]) for i in np.sort(places)]
    return found


def settings_of(case: str, end: str = "") -> Settings:
    lead, fixed, pack, shortage = case.split(",")
    text = INVENTORY.replace("lead_time = 2 ", f"lead_time = {lead} ")
    text = text.replace("fixed_cost = 4.00", f"fixed_cost = {fixed}\ncase_pack = {pack}\n{end}")
    text = text.replace("shortage = 2.00", f"shortage = {shortage}").replace("periods = 28 ", "periods = 42 ")
    return parse_settings(text.encode())


def own_cost(found: list[History], settings: Settings) -> tuple[Any, float]:
    """Cost by item, and the share of decisions that was released."""
    replay = Replay(found, settings)
    done = replay.walk(replay.policy())
    return replay.counted_cost(done), float(done.certificate["released"].mean())


def rivals(found: list[History], settings: Settings, rules: tuple[str, ...]) -> dict[str, Any]:
    """Costs by item of every rule, tuned on the days before."""
    before, past = earlier_part(settings, found, settings.backtest.periods)
    tuned, now = Replay(past, before), Replay(found, settings)
    out = {}
    for name in rules:
        wanted = list(tuned.rules[name].settings())
        places = sorted({round(x) for x in np.linspace(0, len(wanted) - 1, min(TRIES, len(wanted)))})
        costs = [tuned.counted_cost(tuned.walk(tuned.rules[name].make(**wanted[i]))).sum() for i in places]
        best = wanted[places[int(np.argmin(costs))]]
        out[f"{name}, tuned"] = now.counted_cost(now.walk(now.rules[name].make(**best)))
    return out


class Played(NamedTuple):
    """A case replayed with our own plans."""

    file: Path  # the items' sales, as long as the loop goes on
    settings: Settings
    found: list[History]
    own: Any  # (items,) cost
    line: str  # what it comes to, in words


def played(items: Items, cases: Iterable[str]) -> Iterator[tuple[str, Played]]:
    """Case by case, on the items' sales as a file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "sales.csv"
        rows = [f"{name},{t + 1},{y:g}" for name, v in items for t, y in enumerate(v)]
        file.write_text("\n".join(["series,step,demand", *rows]) + "\n")
        for case in cases:
            settings = with_season(settings_of(case), file)
            found = read_histories(settings, file, None)[0]
            own, released = own_cost(found, settings)
            line = f"{case}: cost {own.sum():.1f}, released {100 * released:.1f} %"
            yield case, Played(file, settings, found, own, line)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.slow_items", description=__doc__)
    parser.add_argument("--items", type=int, default=12)
    parser.add_argument("--seed", type=int, default=101, help="11 was used to choose the defaults")
    parser.add_argument("--m5", action="store_true")
    parser.add_argument("--case", action="append", help="lead time, fixed cost, pack, shortage cost; repeat")
    parser.add_argument("--rule", action="append", choices=RULES)
    given = parser.parse_args()
    items = (from_stores if given.m5 else made_up)(given.seed, given.items)
    for case, one in played(items, given.case or CASES):
        print(one.line, flush=True)
        if one.settings.task.lead_time <= 2 and one.settings.task.fixed_cost > 0.0:
            plain = with_season(settings_of(case, 'end_stock = "unit_cost"'), one.file)
            other, _ = own_cost(read_histories(plain, one.file, None)[0], plain)
            print(f"  without an end value: {delta(one.own, other)}", flush=True)
        for name, other in rivals(one.found, one.settings, tuple(given.rule or RULES)).items():
            print(f"  {name}: {delta(one.own, other)}", flush=True)


if __name__ == "__main__":
    main()
