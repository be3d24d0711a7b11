"""Periods that are not known, and columns that are known ahead, in every forecaster: against plain NumPy, and on
processes of which the truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.forecast.test_forecast_ridge import closed_form
from ucsearch.errors import InputError
from ucsearch.forecast import RidgeEnsemble, RidgePaths, SeasonalNaive, Smoothing, default_lags
from ucsearch.forecast.auto import Auto
from ucsearch.forecast.bootstrap import MarkovBootstrap
from ucsearch.forecast.recalibrate import Recalibrating, Recalibration
from ucsearch.forecast.ridge import UnbiasedRidge

STREAM = np.uint64(4)
MODELS: list[Any] = [
    SeasonalNaive(paths=40, floor=0.0), RidgePaths(paths=40, floor=0.0), RidgeEnsemble(models=6, floor=0.0),
    UnbiasedRidge(paths=40, floor=0.0), Smoothing(paths=40, floor=0.0), MarkovBootstrap(paths=40),
    Auto(paths=40, origins=20), Recalibrating(RidgePaths(paths=40, floor=0.0), Recalibration("rolling", 7)),
]  # fmt: skip
TAKE_KNOWN = [m for m in MODELS if getattr(m, "takes_known", False)]
WEEK = np.array([6.0, 4.0, 5.0, 6.0, 9.0, 12.0, 3.0])


def demand(length: int, seed: int, times: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.poisson(times * WEEK[np.arange(length) % 7]).astype(np.float64)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_a_gap_is_not_a_value(model: Any) -> None:
    """What is not known is forecast around: nearer to the forecast that knows it than zeros in its place are."""
    y = demand(400, 1, 3.0)
    gone = np.random.default_rng(2).random(y.size) < 0.25
    gone[:30] = False
    marks = np.arange(300, 393, 7)

    def means(values: np.ndarray) -> np.ndarray:
        made = model.forecast(values, marks, horizon=7, season=7, stream=STREAM)
        return np.asarray(made.expand().members).mean(axis=1)

    whole, holes, zeros = means(y), means(np.where(gone, np.nan, y)), means(np.where(gone, 0.0, y))
    assert abs(holes.mean() / whole.mean() - 1.0) < 0.04
    assert zeros.mean() / whole.mean() < 0.9
    assert np.abs(holes - whole).mean() < 0.5 * np.abs(zeros - whole).mean()


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_gaps_let_nothing_later_in(model: Any) -> None:
    y = demand(200, 3)
    y[[5, 60, 61, 62, 120, 139, 150, 190]] = np.nan
    marks = np.array([100, 140, 180])
    whole = model.forecast(y, marks, horizon=7, season=7, stream=STREAM).members
    for o, mark in enumerate(marks.tolist()):
        other = y.copy()
        other[mark + 1 :] = 1e3
        alone = model.forecast(other, marks[o : o + 1], horizon=7, season=7, stream=STREAM).members
        assert alone[0].tobytes() == whole[o].tobytes()


@pytest.mark.parametrize("model", [m for m in MODELS if m not in TAKE_KNOWN], ids=lambda m: m.name)
def test_a_forecaster_that_cannot_use_the_known_future_says_so(model: Any) -> None:
    with pytest.raises(InputError, match="known: saw columns that are known ahead, expected none"):
        model.forecast(demand(100, 1), np.array([80]), horizon=7, season=7, stream=STREAM, known=np.zeros((100, 1)))


@pytest.mark.parametrize("model", TAKE_KNOWN, ids=lambda m: m.name)
def test_a_promotion_is_learned_and_foreseen(model: Any) -> None:
    rng = np.random.default_rng(5)
    promoted = (rng.random(410) < 0.15).astype(np.float64)
    y = demand(400, 6, 2.0) + 8.0 * promoted[:400]
    marks = np.arange(250, 400, 7)
    at = marks[:, None] + 1 + np.arange(7)
    truth = 2.0 * WEEK[at % 7] + 8.0 * promoted[at]
    common: dict[str, Any] = {"horizon": 7, "season": 7, "stream": STREAM}
    blind = model.forecast(y, marks, **common).members.mean(axis=1)
    told = model.forecast(y, marks, **common, known=promoted[:, None]).members.mean(axis=1)
    assert np.abs(told - truth).mean() < 0.85 * np.abs(blind - truth).mean()
    off, on = (told - truth)[promoted[at] == 0.0].mean(), (told - truth)[promoted[at] == 1.0].mean()
    assert abs(on - off) < 2.2  # of 8
    assert (blind - truth)[promoted[at] == 1.0].mean() < -4.0


def test_a_level_that_the_columns_carry_is_no_effect() -> None:
    """A price far from 0 that moves little: its coefficient changes all the time, the forecast's level does not."""
    rng = np.random.default_rng(7)
    price = 100.0 + rng.integers(0, 2, 310)
    y = 60.0 - 5.0 * (price[:300] - 100.0) + rng.normal(size=300)
    made = RidgePaths(paths=200).forecast(y, np.array([299]), horizon=10, season=1, stream=STREAM, known=price[:, None])
    np.testing.assert_allclose(made.mean[0], 60.0 - 5.0 * (price[300:] - 100.0), atol=0.8)
    assert made.std[0].max() < 2.0


def slow_walk(
    y: np.ndarray, known: np.ndarray, model: RidgePaths, season: int, horizon: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mean path at the end of y by closed forms: effects of `known` from what the autoregression without them did
    not forecast, gaps filled with what was forecast. Also the one-step errors."""
    lags = default_lags(season)
    start, filled = lags[-1], y.copy()
    effects = np.zeros(known.shape[1])
    rows: list[np.ndarray] = []
    targets: list[float] = []
    seen: list[int] = []
    extra_x: list[np.ndarray] = []
    extra_y: list[float] = []
    errors = []
    low = high = y[0]

    def fit() -> tuple[np.ndarray, float]:
        return closed_form(np.array(rows), np.array(targets), model.ridge, model.pull, model.discount)

    def row_at(t: int, values: np.ndarray) -> tuple[np.ndarray, float]:
        less = values[:t] - known[:t] @ effects
        level = np.mean([y[i] - known[i] @ effects for i in seen])
        last = less[t - 1]
        return np.array([level - last, *(less[t - lag] - last for lag in lags[1:])]), last

    for t in range(y.size):
        if t >= start:
            row, last = row_at(t, filled)
            ahead = np.nan
            if len(rows) >= 3:
                slope, constant = fit()
                ahead = last + constant + slope @ row
        if np.isnan(y[t]):
            mean = np.mean([y[i] - (known[i] @ effects) for i in seen])
            value = mean if t < start or np.isnan(ahead) else ahead
            filled[t] = value + known[t] @ effects if t >= start else value
            filled[t] = min(max(filled[t], low), high)
            continue
        seen.append(t)
        low, high = min(low, y[t]), max(high, y[t])
        if t < start:
            continue
        target = y[t] - known[t] @ effects - last
        if not np.isnan(ahead):
            errors.append(y[t] - known[t] @ effects - ahead)
        rows.append(row)
        targets.append(target)
        if known.shape[1] and not np.isnan(ahead):
            away = known[t] - known[0]
            extra_x.append(away)
            extra_y.append(y[t] - known[t] @ effects - ahead + away @ effects)
            effects, _ = closed_form(np.array(extra_x), np.array(extra_y), model.ridge, 1.0, model.discount)
            effects[(np.array(extra_x) != 0.0).sum(axis=0) < 3] = 0.0
    slope, constant = fit()
    path = list(filled - known[: y.size] @ effects)
    level = np.mean([y[i] - known[i] @ effects for i in seen])
    for _ in range(horizon):
        last = path[-1]
        path.append(last + constant + slope @ np.array([level - last, *(path[-lag] - last for lag in lags[1:])]))
    return np.array(path[y.size :]) + known[y.size : y.size + horizon] @ effects, np.array(errors)


@pytest.mark.parametrize("kind", ["gaps", "known", "both"])
def test_ridge_with_gaps_and_a_known_future_equals_plain_numpy(kind: str) -> None:
    rng = np.random.default_rng(11)
    y = demand(90, 12, 4.0)
    known = np.zeros((98, 0))
    if kind != "gaps":
        known = np.stack([(rng.random(98) < 0.3).astype(float), rng.normal(20.0, 2.0, 98)], axis=1)
        y += 6.0 * known[:90, 0]
    if kind != "known":
        y[[3, 20, 21, 40, 41, 42, 43, 70, 88]] = np.nan
    model = RidgePaths(paths=4000, vary=False, widen=100.0, residuals=200)
    told = None if kind == "gaps" else known
    made = model.forecast(y, np.array([89]), horizon=8, season=7, stream=STREAM, known=told)
    path, errors = slow_walk(y, known, model, 7, 8)
    np.testing.assert_allclose(made.mean[0], path, atol=0.02 * made.std[0].max())
    assert made.std[0, 0] == pytest.approx(errors.std(), rel=0.02)


def test_the_known_future_reaches_as_far_as_the_horizon() -> None:
    with pytest.raises(InputError, match=r"known: saw shape \(60, 1\), expected shape \(n, K\), n at least 64"):
        RidgePaths().forecast(
            demand(60, 1), np.array([59]), horizon=4, season=7, stream=STREAM, known=np.zeros((60, 1))
        )
    bad = np.zeros((64, 1))
    bad[7] = np.nan
    with pytest.raises(InputError, match=r"known\[7, 0\]: saw nan"):
        RidgePaths().forecast(demand(60, 1), np.array([59]), horizon=4, season=7, stream=STREAM, known=bad)


def slow_smoothing(y: np.ndarray, season: int) -> float:
    """The one-step mean of the running-mean gain by plain Python, gaps left out, for series where that gain is best."""
    level, n = 0.0, 0
    for value in y:
        if np.isnan(value):
            continue
        n += 1
        level += max(0.01, 1.0 / n) * (value - level)
    return level


def test_smoothing_leaves_gaps_out() -> None:
    rng = np.random.default_rng(3)
    y = 50.0 + rng.normal(size=90)
    y[rng.random(90) < 0.3] = np.nan
    y[0] = 50.0
    made = Smoothing(paths=4000).forecast(y, np.array([89]), horizon=1, season=1, stream=STREAM)
    there = y[~np.isnan(y)]
    alone = Smoothing(paths=4000).forecast(there, np.array([there.size - 1]), horizon=1, season=1, stream=STREAM)
    assert made.mean[0, 0] == pytest.approx(slow_smoothing(y, 1), abs=0.3)
    assert made.mean[0, 0] == pytest.approx(alone.mean[0, 0], abs=0.02)
    assert made.std[0, 0] == pytest.approx(alone.std[0, 0], rel=0.02)


def test_the_bootstrap_counts_known_neighbours_only() -> None:
    """Demand every other day: with gaps in between no chain may be read off values that are not neighbours."""
    y = np.tile([4.0, 0.0], 60)
    y[[10, 31, 32, 77]] = np.nan
    made = MarkovBootstrap(paths=400, jitter=False).forecast(y, np.array([119]), horizon=2, season=1, stream=STREAM)
    assert made.members[0, :, 0].mean() > 3.8
    assert made.members[0, :, 1].mean() < 0.3
