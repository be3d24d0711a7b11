"""How often the monitor cries wolf and how soon it sees a misfit, simulated with seeds of this run's own."""

from __future__ import annotations

import itertools
import secrets

import numpy as np
import pytest

from ucsearch.monitor import Settings
from ucsearch.monitor.bets import chosen_bets, gains

pytestmark = pytest.mark.slow

NARROW = {0.1: 1.0, 0.2: 1.2836, 0.3: 1.5870}  # misses of a 90 % interval, and the spread of outcomes that gives them
WARM = 500  # honest outcomes before the change


def trips(
    runs: int, size: int, scale: float, periods: int, *, undercoverage: float = 0.0, warm: int = 0, pool: int = 1,
    common: float = 0.0,
) -> np.ndarray:  # fmt: skip
    """(runs,) outcome after the change at which each run tripped, 0 when it did not; -1 when it tripped before."""
    seed = secrets.randbits(64)
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    settings = Settings(max_undercoverage=undercoverage)
    bets = chosen_bets("both")
    edges = np.arange(size + 2) / (size + 1)
    table = np.array([gains(a, b, settings.tolerance, bets) for a, b in itertools.pairwise(edges)])
    weight = np.array([b.weight for b in bets])
    growth, hit = np.zeros((runs, len(bets))), np.zeros(runs, int)
    for t in range(-warm, periods):
        own = rng.normal(size=(runs, pool))
        y = np.sqrt(common) * rng.normal(size=(runs, 1)) + np.sqrt(1.0 - common) * own
        y *= scale if t >= 0 else 1.0
        # The number of members below y, without drawing them one by one.
        place = rng.binomial(size, np.clip(_cdf(y), 0.0, 1.0))
        growth = (growth + 1.0) * table[place].mean(axis=1)
        over = (growth @ weight >= settings.limit) & (hit == 0)
        hit[over] = t + 1 if t >= 0 else -1
    return hit


def _cdf(x: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr

    return np.asarray(ndtr(x))


def seen(hits: np.ndarray) -> float:
    armed = hits >= 0
    return float((hits[armed] > 0).mean())


def test_false_alarms_are_rare() -> None:
    """At most 1 % of 2,000 runs of 5,000 outcomes, for honest forecasts and for those at the tolerated edge."""
    assert (trips(2_000, 100, 1.0, 5_000) != 0).mean() <= 0.01
    edge = 1.0 + Settings(max_undercoverage=0.035).tolerance
    assert (trips(2_000, 100, edge, 5_000, undercoverage=0.035) != 0).mean() <= 0.01


def test_twice_the_misses_are_seen_within_300_outcomes() -> None:
    assert seen(trips(2_000, 200, NARROW[0.2], 300, warm=WARM)) >= 0.94 - 0.015
    assert seen(trips(2_000, 50, NARROW[0.2], 300, warm=WARM)) >= 0.88 - 0.015


def test_three_times_the_misses_are_seen_with_a_tolerance() -> None:
    assert seen(trips(2_000, 100, NARROW[0.3], 300, undercoverage=0.017, warm=WARM)) >= 0.99


def test_ten_series_together_are_faster() -> None:
    hits = trips(1_000, 100, NARROW[0.2], 300, undercoverage=0.017, warm=WARM, pool=10, common=0.5)
    assert seen(hits) >= 0.997  # about one run in ten thousand takes longer: the seed is another one every time
    assert np.median(hits[hits > 0]) <= 120
