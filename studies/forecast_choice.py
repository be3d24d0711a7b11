"""What choosing a forecaster by each series' own past is worth: CRPS of `Auto` against `UnbiasedRidge`.

Made-up worlds (`studies.worlds`), M5 items and M4 series of other periods, walked forward over the last 42 origins. Two
scores, over the mean of the outcomes: by step, and of the sum of all steps, which an order has to last for. Below 0 %
`Auto` is better.

    python -m studies.forecast_choice --seed 6007
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from studies.worlds import WORLDS, demand
from ucsearch.forecast import Auto, UnbiasedRidge
from ucsearch.forecast.base import Forecaster
from ucsearch.forecast.calibration import crps_ensemble
from ucsearch.lab.data import load_m4, load_m5
from ucsearch.lab.data.records import Series

Floats = NDArray[np.float64]
ORIGINS, STEPS, PATHS = 42, 7, 30
STORES = ("TX_1", "TX_2", "WI_1")
SEASONS = {"weekly": 52, "monthly": 12}
LENGTHS = {"weekly": 260, "monthly": 180}


def samples(seed: int, count: int, m5: bool, m4: bool) -> Iterator[tuple[str, int, list[Floats]]]:
    """(name, season, series)"""
    for world in WORLDS:
        rng = np.random.default_rng([seed, WORLDS.index(world)])
        yield world, 7, [demand(world, rng) for _ in range(count)]
    for store in STORES if m5 else ():
        sold = _m5_items(store)
        yield f"M5, {store}", 7, [np.asarray(sold[i].y[-320:], np.float64) for i in _places(len(sold), count, seed)]
    for group in SEASONS if m4 else ():
        long = [s.y[-LENGTHS[group] :] for s in load_m4(group).series if len(s.y) >= LENGTHS[group]]
        yield f"M4, {group}", SEASONS[group], [np.asarray(long[i], np.float64) for i in _places(len(long), count, seed)]


def m5_names(seed: int, count: int) -> set[str]:
    """Items of M5 that are drawn so."""
    found = {store: _m5_items(store) for store in STORES}
    return {items[i].id for items in found.values() for i in _places(len(items), count, seed)}


def _m5_items(store: str) -> list[Series]:
    return [s for s in load_m5(stores=(store,)).series if s.y[-320:].mean() >= 0.3]


def _places(size: int, count: int, seed: int) -> list[int]:
    chosen = np.random.default_rng(seed).choice(size, min(count, size), replace=False)
    return [int(i) for i in np.sort(chosen)]


def scores(model: Forecaster, y: Floats, season: int) -> Floats:
    """CRPS by step and of the sum, over the mean outcome."""
    marks = np.arange(len(y) - ORIGINS - STEPS, len(y) - STEPS, dtype=np.int64)
    made = model.forecast(y, marks, horizon=STEPS, season=season, stream=np.uint64(11)).members
    actual = y[marks[:, None] + 1 + np.arange(STEPS)]
    by_step = np.mean([crps_ensemble(made[:, :, h], actual[:, h]).mean() for h in range(STEPS)])
    of_sum = crps_ensemble(made.sum(axis=2), actual.sum(axis=1)).mean()
    return np.array([by_step, of_sum]) / max(float(np.abs(actual).mean()), 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.forecast_choice", description=__doc__)
    parser.add_argument("--seed", type=int, default=6007)
    parser.add_argument("--items", type=int, default=24)
    parser.add_argument("--no-m5", action="store_true")
    parser.add_argument("--no-m4", action="store_true")
    given = parser.parse_args()
    models: tuple[Forecaster, ...] = (UnbiasedRidge(paths=PATHS, floor=0.0), Auto(paths=PATHS))
    print("| series | by step | sum of 7 |\n|---|---|---|")
    for name, season, items in samples(given.seed, given.items, not given.no_m5, not given.no_m4):
        ridge, auto = (np.array([scores(m, y, season) for y in items]).mean(axis=0) for m in models)
        step, total = 100.0 * (auto / ridge - 1.0)
        print(f"| {name} | {step:+.1f} % | {total:+.1f} % |", flush=True)


if __name__ == "__main__":
    main()
