"""Smoothed paths: right where there is a level, a season and noise; nothing later has a say."""

from __future__ import annotations

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.forecast import Auto, Smoothing, UnbiasedRidge, crps_ensemble
from ucsearch.forecast.cleaning import stopped_for

STREAM = np.uint64(7)
MARKS = np.arange(60, 110, dtype=np.int64)


def crps(model: object, y: np.ndarray) -> float:
    made = model.forecast(y, MARKS, horizon=7, season=7, stream=STREAM)  # type: ignore[attr-defined]
    actual = made.actuals(y)
    return float(np.mean([crps_ensemble(made.members[:, :, h], actual[:, h]).mean() for h in range(7)]))


def test_noise_around_a_level_is_not_taken_for_more() -> None:
    """Seven periods' demand of a constant level: the spread of the sum is that of its noise (it was up to three times
    as wide), and the default forecaster notices."""
    y = np.random.default_rng(3).poisson(20.0, 117).astype(float)
    made = Smoothing(paths=60, floor=0.0).forecast(y, MARKS, horizon=7, season=7, stream=STREAM)
    spread = made.members.sum(axis=2).std(axis=1).mean()
    assert 0.8 < spread / np.sqrt(7 * 20.0) < 1.35
    ridge, auto = crps(UnbiasedRidge(paths=30, floor=0.0), y), crps(Auto(paths=30), y)
    assert auto < 0.95 * ridge


def test_a_week_is_learnt_and_nothing_later_is_seen() -> None:
    rng = np.random.default_rng(4)
    week = np.tile([0.3, 0.3, 0.5, 0.8, 1.8, 2.8, 0.5], 20)[:117]
    y = rng.poisson(30.0 * week).astype(float)
    model = Smoothing(paths=30, floor=0.0)
    made = model.forecast(y, MARKS, horizon=7, season=7, stream=STREAM)
    assert np.corrcoef(made.mean[-1], 30.0 * week[110 - 7 : 110])[0, 1] > 0.9
    changed = y.copy()
    changed[81:] = 999.0
    again = model.forecast(changed, MARKS[:21], horizon=7, season=7, stream=STREAM)
    assert again.members.tolist() == made.members[:21].tolist()
    auto = Auto(paths=30, origins=20)
    one = auto.forecast(y, MARKS[:21], horizon=7, season=7, stream=STREAM)
    assert (
        auto.forecast(changed, MARKS[:21], horizon=7, season=7, stream=STREAM).members.tolist() == one.members.tolist()
    )
    last = auto.choose(changed, 80, horizon=7, season=7, stream=STREAM)
    alone = last.forecast(y, MARKS[20:21], horizon=7, season=7, stream=STREAM)
    assert one.members[-1].tolist() == alone.members[0].tolist()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("zeros", [0, 40])
def test_zeros_at_first_and_any_unit(scale: float, zeros: int) -> None:
    """Errors are measured in what is usual by now, not in what was usual before the first sale."""
    rng = np.random.default_rng(6)
    y = np.concatenate([np.zeros(zeros), rng.poisson(3.0, 80)]) * scale
    model = Smoothing(paths=20, floor=0.0)
    made = model.forecast(y, np.array([len(y) - 8]), horizon=7, season=7, stream=STREAM)
    assert np.isfinite(made.members).all()
    assert made.members.min() >= 0.0
    assert made.members.max() < 30.0 * scale
    none = model.forecast(np.zeros(30), np.array([20]), horizon=7, season=1, stream=STREAM)
    assert none.members.max() == 0.0


def test_prices_may_fall_below_zero() -> None:
    y = np.random.default_rng(8).normal(0.0, 5.0, 90)
    made = Smoothing(paths=20).forecast(y, np.array([80]), horizon=4, season=24, stream=STREAM)
    assert made.members.min() < 0.0
    with pytest.raises(InputError, match="residuals"):
        Smoothing(residuals=2)
    with pytest.raises(InputError, match="season"):
        Smoothing().forecast(y, np.array([80]), horizon=4, season=0, stream=STREAM)


def test_an_item_that_is_sold_no_more_is_not_forecast_from_its_past() -> None:
    rng = np.random.default_rng(2)
    auto = Auto(paths=30)
    sold = rng.poisson(5.0, 90).astype(float)
    gone = np.concatenate([sold, np.zeros(30)])
    made = auto.forecast(gone, np.array([len(gone) - 1]), horizon=7, season=7, stream=STREAM)
    assert made.mean.max() < 0.5  # a tenth of what was sold; an autoregression says a fifth for months
    chosen = auto.choose(gone, len(gone) - 1, horizon=7, season=7, stream=STREAM)
    alone = chosen.forecast(gone, np.array([len(gone) - 1]), horizon=7, season=7, stream=STREAM)
    assert alone.members.tolist() == made.members.tolist()
    back = np.concatenate([gone, [6.0, 4.0, 5.0]])
    assert auto.choose(back, len(back) - 1, horizon=7, season=7, stream=STREAM).name != "markov-bootstrap"


@pytest.mark.parametrize(
    ("y", "season", "expected"),
    [
        (np.concatenate([np.full(40, 5.0), np.zeros(20)]), 7, 20),
        (np.concatenate([np.full(40, 5.0), np.zeros(12)]), 7, 0),  # less than two weeks
        (np.tile(np.r_[np.full(14, 3.0), np.zeros(10)], 5), 24, 0),  # a shop at night
        (np.tile(np.r_[np.full(3, 3.0), np.zeros(12)], 5), 1, 0),  # a pause as before
        (np.r_[np.tile(np.r_[1.0, np.zeros(19)], 5), np.zeros(5)], 7, 0),  # a slow item
        (np.zeros(50), 7, 0),
    ],
)
def test_what_counts_as_stopped(y: np.ndarray, season: int, expected: int) -> None:
    assert stopped_for(y, season) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.94, "smoothing"), (0.97, "unbiased-ridge")])
def test_smoothing_is_chosen_where_it_is_clearly_better(share: float, expected: str) -> None:
    auto = Auto(paths=30)
    able = list(auto.candidates()[:2])
    scores = [np.full((80, 3), share), np.full((80, 3), 1.0)]
    assert able[auto._best(able, scores, 70)].name == expected
