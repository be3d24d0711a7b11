"""What the default settings are worth in demand worlds that nobody tuned them on.

Eight worlds are made up: slow movers (Poisson), overdispersed counts (negative binomial), a strong week, a trend,
promotions, steady demand with 1 % of noise, lumpy orders of businesses, and items that are new. Ours is what `ucsearch
new inventory` plans; every rule is tuned on the days before the counted 42, by total cost over the world's items, with
twelve settings. A delta is (their cost - ours) / (sum of both); below 0 ours is dearer.

    python -m studies.worlds --items 16 --world steady --case 1,4,0,2
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from studies.newcomer import delta
from studies.slow_items import played, rivals

Floats = NDArray[np.float64]
WORLDS = ("slow", "overdispersed", "week", "trend", "promotions", "steady", "lumpy", "new")
CASES = ("1,4,0,2", "2,4,6,2", "1,0,0,2", "3,4,6,2")  # lead time, fixed cost, pack, shortage cost; holding is 0.1
RULES = ("(s,S)", "base-stock", "newsvendor", "planning on a quantile")
DAYS = 320
_NEW = 30 + 7 + 42 + 42  # days of an item that is new: the counted ones, those rules are tuned on, and 30 before


def demand(world: str, rng: np.random.Generator) -> Floats:
    """The days of one item."""
    level = float(np.exp(rng.uniform(np.log(4.0), np.log(60.0))))
    t = np.arange(DAYS)
    week = np.tile(np.array([1.0, 0.9, 0.9, 1.0, 1.2, 1.4, 0.6]), DAYS // 7 + 1)[:DAYS]
    if world == "slow":
        return rng.poisson(rng.uniform(0.2, 1.5), DAYS).astype(float)
    if world == "overdispersed":
        size = rng.uniform(0.7, 3.0)
        return rng.negative_binomial(size, size / (size + level * week)).astype(float)
    if world == "week":
        steep = np.tile(np.array([0.3, 0.3, 0.5, 0.8, 1.8, 2.8, 0.5]), DAYS // 7 + 1)[:DAYS]
        return rng.poisson(level * steep).astype(float)
    if world == "trend":
        return rng.poisson(level * (0.5 + rng.uniform(0.5, 2.0) * t / DAYS)).astype(float)
    if world == "promotions":
        on = np.zeros(DAYS)
        for start in rng.choice(DAYS - 5, DAYS // 40, replace=False):
            on[start : start + 5] = rng.uniform(1.0, 3.0)
        return rng.poisson(level * week * (1.0 + on)).astype(float)
    if world == "steady":
        return np.round(10.0 * level * (1.0 + 0.01 * rng.standard_normal(DAYS)))
    if world == "lumpy":
        return (rng.random(DAYS) < rng.uniform(0.1, 0.3)) * np.round(rng.lognormal(np.log(level), 0.8, DAYS))
    return rng.poisson(level, _NEW).astype(float)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.worlds", description=__doc__)
    parser.add_argument("--items", type=int, default=16)
    parser.add_argument("--seed", type=int, default=207, help="7 was used to choose the defaults")
    parser.add_argument("--world", action="append", choices=WORLDS)
    parser.add_argument("--case", action="append", help="lead time, fixed cost, pack, shortage cost; repeat")
    parser.add_argument("--rule", action="append", choices=RULES)
    given = parser.parse_args()
    for world in given.world or WORLDS:
        rng = np.random.default_rng([given.seed, WORLDS.index(world)])
        items = [(f"item-{i}", demand(world, rng)) for i in range(given.items)]
        for _, one in played(items, given.case or CASES):
            print(f"{world} {one.line}", flush=True)
            for name, other in rivals(one.found, one.settings, tuple(given.rule or RULES)).items():
                print(f"  {name} {other.sum():.1f}: {delta(one.own, other)}", flush=True)


if __name__ == "__main__":
    main()
