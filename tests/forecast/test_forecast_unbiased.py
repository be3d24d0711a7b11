"""Ridge paths without the mean error they have made so far."""

from __future__ import annotations

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.forecast import RidgePaths, UnbiasedRidge
from ucsearch.planner.settings import parse_settings

STREAM = np.uint64(7)
MARKS = np.arange(330, 400, dtype=np.int64)


def slow() -> np.ndarray:
    """An item that sells now and then."""
    return np.random.default_rng(3).poisson(0.6, 420).astype(float)


def test_what_a_floor_adds_is_taken_off() -> None:
    y = slow()
    plain, unbiased = (
        kind(paths=40, floor=0.0).forecast(y, MARKS, horizon=7, season=7, stream=STREAM)
        for kind in (RidgePaths, UnbiasedRidge)
    )
    actual = plain.actuals(y).mean()
    assert plain.mean.mean() > 1.08 * actual
    assert abs(unbiased.mean.mean() - actual) < 0.5 * abs(plain.mean.mean() - actual)
    assert unbiased.members.min() >= 0.0
    assert unbiased.members.shape == plain.members.shape
    assert unbiased.mean == pytest.approx(unbiased.members.mean(axis=1))
    assert unbiased.model == "unbiased-ridge"


def test_nothing_after_the_cutoff_has_a_say() -> None:
    y = slow()
    other = y.copy()
    other[361:] += 50.0
    at = np.array([360])
    a, b = (UnbiasedRidge(paths=10, floor=0.0).forecast(v, at, horizon=5, season=7, stream=STREAM) for v in (y, other))
    assert a.members.tolist() == b.members.tolist()
    # One origin alone is the same as among others.
    among = UnbiasedRidge(paths=10, floor=0.0).forecast(
        y, np.arange(350, 365), horizon=5, season=7, stream=STREAM
    )  # fmt: skip
    assert np.allclose(among.members[10], a.members[0], rtol=0.0, atol=1e-9)


def test_without_a_season_paths_stay() -> None:
    y = slow()
    plain, unbiased = (
        kind(paths=10, floor=0.0).forecast(y, MARKS, horizon=3, season=1, stream=STREAM)
        for kind in (RidgePaths, UnbiasedRidge)
    )
    assert unbiased.members.tolist() == plain.members.tolist()


def test_settings_name_it() -> None:
    text = "[task]\nname = 'lead_time_inventory'\n[policy]\nname = 'exact'\ndepth = 3\n"
    found = parse_settings(f"{text}[forecaster]\nname = 'unbiased_ridge'\npaths = 9\nfloor = 0.0\n".encode())
    assert found.forecaster == UnbiasedRidge(paths=9, floor=0.0)
    for key, value in (("paths", 0), ("cycles", 0)):
        with pytest.raises(InputError, match=key):
            UnbiasedRidge(**{key: value})
