"""The built-in forecasters beside statsforecast's, on M5 items and M4 series: CRPS, pinball loss and cost.

Everybody forecasts the same 42 origins. Cost is what the default policy pays that plans on these paths (closed mode,
packs and a fixed cost, as in `studies.retail`). AutoETS is fitted once, before the first origin, carried forward
from there, and draws its paths with its own residuals; Croston's methods and seasonal naive give a point, to which
whole error paths of their last 60 forecasts are added. The M4 series are design ids, which no suite measures.

    UCSEARCH_DATA=... python -m studies.forecasters --series 34     # statsforecast has to be installed
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.retail import DAYS, PATHS, TESTED_ON, closed, items, panel_of
from ucsearch.forecast import Auto, MarkovBootstrap, RidgePaths, SeasonalNaive, Smoothing, UnbiasedRidge
from ucsearch.forecast.base import PathForecast
from ucsearch.forecast.calibration import crps_ensemble
from ucsearch.lab.data import load_m4
from ucsearch.lab.suites.kinds.series import is_design
from ucsearch.replay.walk import walk
from ucsearch.student import student_quantile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ERRORS, LENGTH, CUT = 60, 180, 400
OWN: dict[str, Callable[..., Any]] = {
    "Auto": Auto, "UnbiasedRidge": UnbiasedRidge, "RidgePaths": RidgePaths, "Smoothing": Smoothing,
    "MarkovBootstrap": MarkovBootstrap, "SeasonalNaive": SeasonalNaive,
}  # fmt: skip
THEIRS = ("AutoETS", "CrostonClassic", "CrostonOptimized", "CrostonSBA", "TSB", "ADIDA", "IMAPA", "SeasonalNaive")


@dataclass(frozen=True)
class Theirs:
    """A model of statsforecast as a forecaster of ours."""

    method: str
    paths: int = PATHS
    floor: float = 0.0

    @property
    def name(self) -> str:
        return f"statsforecast:{self.method}"

    def forecast(self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64) -> PathForecast:
        rng = np.random.default_rng(int(stream))
        made = self._ets if self.method == "AutoETS" else self._by_errors
        members = np.maximum(np.stack(list(made(y, cutoffs, horizon, season, rng))), self.floor)
        return PathForecast(members, members.mean(axis=1), members.std(axis=1), np.asarray(cutoffs), self.name, "joint")

    def _ets(self, y: Floats, cutoffs: Ints, horizon: int, season: int, rng: Any) -> Iterator[Floats]:
        from statsforecast.ets import forward_ets, simulate_ets
        from statsforecast.models import AutoETS

        fitted = AutoETS(season_length=season).fit(y[: cutoffs[0] + 1]).model_
        for at in cutoffs:
            held = forward_ets(fitted, y=y[: at + 1])
            seed = int(rng.integers(2**31))
            yield simulate_ets(held, horizon, self.paths, seed=seed, error_distribution="bootstrap")

    def _by_errors(self, y: Floats, cutoffs: Ints, horizon: int, season: int, rng: Any) -> Iterator[Floats]:
        model = self._model(season)
        first = int(cutoffs[0]) - ERRORS - horizon + 1
        points = {at: np.asarray(model.forecast(y[: at + 1], horizon)["mean"]) for at in range(first, cutoffs[-1] + 1)}
        for at in cutoffs:
            past = range(int(at) - ERRORS - horizon + 1, int(at) - horizon + 1)
            errors = np.stack([y[t + 1 : t + 1 + horizon] - points[t] for t in past])
            yield points[int(at)] + errors[rng.integers(ERRORS, size=self.paths)]

    def _model(self, season: int) -> Any:
        from statsforecast import models

        if self.method == "TSB":
            return models.TSB(alpha_d=0.1, alpha_p=0.1)
        if self.method == "SeasonalNaive":
            return models.SeasonalNaive(season_length=season)
        return getattr(models, self.method)()


def m5_items(count: int) -> list[tuple[str, Floats]]:
    """Items of three stores, their latest days."""
    found = [item for store in TESTED_ON for item in items(store, count, 7)]
    return [(name, np.asarray(y[-CUT:], np.float64)) for name, y in found]


def m4_series(count: int) -> list[tuple[str, Floats]]:
    """Monthly design series, three times as many as items of a store, first by place in the file."""
    long = [s for s in load_m4("monthly").series if is_design(s.id) and len(s.y) >= LENGTH and s.y[-LENGTH:].min() >= 0]
    return [(s.id, np.asarray(s.y[-LENGTH:], np.float64)) for s in long[: 3 * count]]


def forecasters() -> dict[str, Any]:
    own = {name: make(paths=PATHS, floor=0.0) if name != "MarkovBootstrap" else make(paths=PATHS)
           for name, make in OWN.items()}  # fmt: skip
    return own | {f"statsforecast:{name}": Theirs(name) for name in THEIRS}


def scores(panel: Any) -> Floats:
    """By series CRPS and pinball loss at 0.5 and 0.9, over the mean outcome."""
    members, actual = panel.members, panel.future
    scale = np.maximum(np.abs(actual).mean(axis=(1, 2)), 1e-9)
    out = []
    for x, y, unit in zip(members, actual, scale, strict=True):
        steps = range(y.shape[1])
        crps = np.mean([crps_ensemble(x[:, :, h], y[:, h]).mean() for h in steps])
        miss = [(y - np.quantile(x, q, axis=1), q) for q in (0.5, 0.9)]
        out.append([crps / unit, *(np.maximum(q * e, (q - 1) * e).mean() / unit for e, q in miss)])
    return np.array(out)


def measured(named: list[tuple[str, Floats]], season: int) -> Iterator[tuple[str, Floats, Floats, float]]:
    """By forecaster its scores, what the default policy paid by series, and its processor time a forecast."""
    for name, forecaster in forecasters().items():
        if name == "MarkovBootstrap" and season != 7:
            continue  # whole units of intermittent demand
        begun = process_time()
        panel = panel_of(named, season, forecaster, fixed=8.0, pack=0.75, end="cycle")
        took = (process_time() - begun) / (len(named) * DAYS)
        done = walk(panel, closed(panel), left_by=panel.params)
        yield name, scores(panel), -done.totals, took


def saved(own: Floats, other: Floats) -> str:
    """What `other` saves of the cost of `own`, by series, per cent with its 95 % interval."""
    d = (own - other) / (own + other)
    half = student_quantile(0.975, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d))
    share = [200.0 * x / (1.0 + x) for x in (d.mean() - half, d.mean(), d.mean() + half)]
    return f"{share[1]:+.1f} % [{share[0]:+.1f}, {share[2]:+.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.forecasters", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=34, help="items a store, and a third of the M4 series")
    given = parser.parse_args()
    for label, season, make in (("M5 items", 7, m5_items), ("M4 monthly", 12, m4_series)):
        named, base = make(given.series), None
        print(
            f"\n| {label}: {len(named)} | CRPS | pinball 0.5 | pinball 0.9 | cost saved beside `Auto` | us a forecast |"
        )
        print("|---|---|---|---|---|---|")
        for name, found, cost, took in measured(named, season):
            base = cost if base is None else base
            figures = " | ".join(f"{x:.3f}" for x in found.mean(axis=0))
            print(f"| `{name}` | {figures} | {saved(base, cost)} | {1e6 * took:.0f} |", flush=True)


if __name__ == "__main__":
    main()
