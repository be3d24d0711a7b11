import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.forecast import SeasonalNaive

STREAM = np.uint64(11)


def test_repeats_the_last_season_without_noise() -> None:
    y = np.tile([1.0, 5.0, 3.0], 8)
    forecast = SeasonalNaive(paths=4).forecast(y, np.array([22]), horizon=7, season=3, stream=STREAM)
    # The cutoff is the middle of a season.
    assert forecast.mean[0].tolist() == [3.0, 1.0, 5.0, 3.0, 1.0, 5.0, 3.0]
    assert (forecast.std == 0.0).all()


def test_members_are_last_season_plus_past_errors() -> None:
    rng = np.random.default_rng(2)
    y = rng.normal(size=40).round(3)
    forecast = SeasonalNaive(paths=50, residuals=12).forecast(y, np.array([39]), horizon=4, season=4, stream=STREAM)
    errors = y[28:40] - y[24:36]
    allowed = np.sort(errors) - np.sort(errors).mean()
    for h in range(4):
        off = forecast.members[0, :, h] - y[36 + h]
        assert np.abs(off[:, None] - allowed).min(axis=1).max() < 1e-12


def test_spread_grows_by_one_error_variance_per_season() -> None:
    rng = np.random.default_rng(3)
    y = np.cumsum(rng.normal(size=600))
    forecast = SeasonalNaive(paths=4000, residuals=400).forecast(y, np.array([599]), horizon=3, season=1, stream=STREAM)
    variance = forecast.std[0] ** 2
    np.testing.assert_allclose(variance[1:] / variance[0], [2.0, 3.0], rtol=0.1)


def test_latin_draws_match_the_error_distribution_closely() -> None:
    rng = np.random.default_rng(4)
    y = rng.gamma(2.0, size=301)
    cutoffs = np.array([300])
    errors = y[101:301] - y[100:300]
    spread = errors.std()

    def off(latin: bool) -> float:
        one = SeasonalNaive(paths=100, latin=latin).forecast(y, cutoffs, horizon=1, season=1, stream=STREAM)
        return abs(float(one.std[0, 0]) - spread)

    assert off(True) < 0.01 * spread
    assert off(True) < off(False)


def test_floor() -> None:
    y = np.array([0.0, 3.0, 0.0, 0.0, 7.0, 0.0, 1.0, 0.0, 0.0, 2.0] * 4)
    free = SeasonalNaive().forecast(y, np.array([39]), horizon=6, season=1, stream=STREAM)
    held = SeasonalNaive(floor=0.0).forecast(y, np.array([39]), horizon=6, season=1, stream=STREAM)
    assert free.members.min() < 0.0
    assert held.members.min() == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"paths": 0}, "paths: saw 0"),
        ({"residuals": 3}, "residuals: saw 3"),
        ({"floor": np.nan}, "floor: saw nan"),
    ],
)
def test_refused_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SeasonalNaive(**settings)  # type: ignore[arg-type]


def test_refused_season() -> None:
    with pytest.raises(InputError, match="season: saw 0"):
        SeasonalNaive().forecast(np.arange(20.0), np.array([15]), horizon=1, season=0, stream=STREAM)
