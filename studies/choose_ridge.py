"""Choose the defaults of the ridge forecasters on design data, by CRPS and, where that hardly differs, by coverage.

    UCSEARCH_DATA=folder python studies/choose_ridge.py            # a table, best settings first
    UCSEARCH_DATA=folder python studies/choose_ridge.py --out ridge.csv

Design data are the M4 series whose id has a SHA-256 that starts with a byte divisible by 8, of those the train part
only (never the official hold-out), and the first half of each ETT file. Nothing else is looked at, so that every other
series, and the second halves, stay unseen for validation and test.

A setting's score is the mean over families (six M4 frequencies, ETT hourly, ETT every 15 minutes; equal weights) of the
mean over series of log(CRPS / CRPS of the seasonal naive forecast): 0 is as good as naive, -0.1 about 10 % better. All
settings see the same series, cutoffs and random numbers. Settings within 0.01 (1 %) of the best score are looked at; of
those, the ones whose 90 % intervals cover most nearly 90 % (mean distance over families, within 0.01 of the least),
because decisions need an honest spread; of those, the one with the best score is chosen.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.forecast import Forecaster, RidgeEnsemble, RidgePaths, SeasonalNaive, calibration_report, forecast_one
from ucsearch.lab.data import ETT_NAMES, M4_FREQUENCIES, load_ett, load_m4

RIDGE = (1.0, 3.0, 10.0, 30.0)
PULL = (1.0, 5.0, 25.0, 125.0)
DISCOUNT = (0.99, 0.995, 0.998, 1.0)
VARY = (True, False)
DESIGN = 8  # ids with sha256(id)[0] % DESIGN == 0
LONGEST = 5000  # observations of a series that are used, the latest of its design part
KEY = 20260101
NEAR = 0.01  # scores, and distances from 90 %, this close to the best count as equal


@dataclass(frozen=True, slots=True)
class Item:
    """A design series: `y` ends where the design part ends, and all cutoffs leave a whole horizon inside it."""

    id: str
    family: str
    y: NDArray[np.float64]
    seasonal_period: int
    horizon: int
    cutoffs: NDArray[np.int64]


class Result(NamedTuple):
    """How a setting did: means over families, then by family."""

    setting: tuple[Any, ...]
    score: float
    off: float  # mean distance of the 90 % intervals' coverage from 0.9
    scores: list[float]
    covers: list[float]


def is_design(name: str) -> bool:
    return sha256(name.encode()).digest()[0] % DESIGN == 0


def design_items(most: int, origins: int) -> list[Item]:
    """At most `most` series per family, the first by the hash of their ids."""
    out: list[Item] = []
    for frequency in M4_FREQUENCIES:
        chosen = [x for x in load_m4(frequency).series if is_design(x.id)]
        found: list[Item] = []
        for x in sorted(chosen, key=lambda x: sha256(x.id.encode()).digest()):
            item = make_item(x.id, f"M4 {frequency}", x.y[: x.n_train], x.seasonal_period, x.horizon, origins)
            if item is not None and len(found) < most:
                found.append(item)
        out += found
    for name, (_, _, frequency, season) in ETT_NAMES.items():
        table = load_ett(name)
        half = len(table.values) // 2
        for at, column in enumerate(table.columns):
            y = table.values[:half, at]
            item = make_item(f"{name}/{column}", f"ETT {frequency}", y, season, season // 2, origins)
            if item is not None:
                out.append(item)
    return out


def make_item(
    name: str, family: str, y: NDArray[np.float64], season: int, horizon: int, origins: int
) -> Item | None:  # fmt: skip
    """Cutoffs spread over the last part; None where the series is too short or does not move."""
    y = np.array(y[-LONGEST:])
    first = max(RidgePaths().min_history(season), SeasonalNaive().min_history(season)) - 1
    last = y.size - 1 - horizon
    if last < first or np.ptp(y) == 0.0:
        return None
    start = max(first, last - max(origins, y.size // 3))
    cutoffs = np.unique(np.linspace(start, last, min(origins, last - start + 1)).astype(np.int64))
    return Item(name, family, y, season, horizon, cutoffs)


def judge(model: Forecaster, item: Item) -> tuple[float, float]:
    """Mean CRPS of the item's forecasts, and the share of outcomes inside their central 90 % interval."""
    forecast = forecast_one(model, item, item.cutoffs, horizon=item.horizon, key=KEY)
    expanded = forecast.expand() if forecast.member_std is not None else forecast
    found = calibration_report(expanded.members, expanded.actuals(item.y), levels=(0.9,))
    return found.crps, float(found.coverage[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=200, help="series per M4 frequency")
    parser.add_argument("--origins", type=int, default=8)
    parser.add_argument("--paths", type=int, default=100)
    parser.add_argument("--out", type=Path, help="every setting's score by family, as CSV")
    options = parser.parse_args()
    items = design_items(options.most, options.origins)
    families = list(dict.fromkeys(item.family for item in items))
    naive = np.array([judge(SeasonalNaive(paths=options.paths), item)[0] for item in items])
    kept = [item for item, score in zip(items, naive, strict=True) if score > 0.0]
    naive = naive[naive > 0.0]
    where = np.array([families.index(item.family) for item in kept])
    print({name: int((where == k).sum()) for k, name in enumerate(families)}, file=sys.stderr)

    def result_of(model: Forecaster, setting: tuple[Any, ...]) -> Result:
        found = np.array([judge(model, item) for item in kept])
        ratio = np.log(found[:, 0] / naive)
        scores = [float(ratio[where == k].mean()) for k in range(len(families))]
        covers = [float(found[where == k, 1].mean()) for k in range(len(families))]
        return Result(setting, float(np.mean(scores)), float(np.mean([abs(c - 0.9) for c in covers])), scores, covers)

    rows: list[Result] = []
    grid = list(itertools.product(RIDGE, PULL, DISCOUNT, VARY))
    for n, (ridge, pull, discount, vary) in enumerate(grid, start=1):
        model = RidgePaths(paths=options.paths, ridge=ridge, pull=pull, discount=discount, vary=vary)
        rows.append(result_of(model, (ridge, pull, discount, vary)))
        print(f"{n} of {len(grid)}: {rows[-1][:3]}", file=sys.stderr, flush=True)
    rows.sort(key=lambda row: (row.score, row.setting))
    near = [row for row in rows if row.score <= rows[0].score + NEAR]
    best = next(row for row in near if row.off <= min(other.off for other in near) + NEAR)
    now = RidgePaths()
    current = (now.ridge, now.pull, now.discount, now.vary)
    print("score    off 90 %  ridge pull discount vary")
    for rank, row in enumerate(rows):
        if rank < 12 or row.setting in (current, best.setting):
            notes = "  chosen" * (row is best) + "  the defaults" * (row.setting == current)
            print(f"{row.score:.4f}  {row.off:.4f}    {row.setting}{notes}")
    for name, score, cover in zip(families, best.scores, best.covers, strict=True):
        print(f"chosen, {name}: score {score:.3f}, coverage {cover:.3f}")
    for label, chosen in (("chosen", best.setting), ("defaults", current)):
        row = result_of(RidgeEnsemble(ridge=chosen[0], pull=chosen[1], discount=chosen[2]), chosen[:3])
        print(f"RidgeEnsemble, {label}: {row.score:.4f}, off {row.off:.4f}")
    if options.out is not None:
        with options.out.open("w", newline="") as file:
            writer = csv.writer(file)
            covers = [f"{name} coverage" for name in families]
            writer.writerow(["ridge", "pull", "discount", "vary", "score", "off", *families, *covers])
            writer.writerows([*row.setting, row.score, row.off, *row.scores, *row.covers] for row in rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
