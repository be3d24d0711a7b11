import sys
import threading
from typing import Any

import numpy as np
import pytest
from numba.core.caching import NullCache

from ucsearch.engine import cache
from ucsearch.errors import InputError
from ucsearch.forecast import (
    PathForecast,
    RidgeEnsemble,
    RidgePaths,
    SeasonalNaive,
    Smoothing,
    forecast_one,
    forecast_stream,
    walk_forward_cutoffs,
)
from ucsearch.forecast.base import Forecaster
from ucsearch.lab.data import Series, sample_demand

MODELS = [SeasonalNaive(paths=20), RidgePaths(paths=20), RidgeEnsemble(models=6), Smoothing(paths=20)]
named = pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
KEY = 77


def arrays(forecast: PathForecast) -> list[bytes]:
    parts = [forecast.members, forecast.mean, forecast.std, forecast.cutoff]
    if forecast.member_std is not None:
        parts.append(forecast.member_std)
    return [part.tobytes() for part in parts]


def with_values(series: Series, y: np.ndarray) -> Series:
    return Series(series.id, y, series.frequency, series.seasonal_period, series.horizon, series.n_train)


@named
def test_no_look_ahead(model: Forecaster) -> None:
    """Whatever comes after a cutoff, the forecast made there has the same bytes."""
    series = sample_demand(4).series[1]
    cutoffs = walk_forward_cutoffs(len(series.y), horizon=7, origins=5, step=3)
    honest = forecast_one(model, series, cutoffs, horizon=7, key=KEY)
    rng = np.random.default_rng(0)
    for at, cutoff in enumerate(cutoffs):
        scrambled = series.y.copy()
        scrambled[cutoff + 1 :] = rng.permutation(scrambled[cutoff + 1 :]) * rng.uniform(-1e6, 1e6) + 13.0
        again = forecast_one(model, with_values(series, scrambled), cutoffs, horizon=7, key=KEY)
        for name in ("members", "mean", "std"):
            before, after = getattr(honest, name)[: at + 1], getattr(again, name)[: at + 1]
            assert before.tobytes() == after.tobytes()
        if at + 1 < cutoffs.size:
            assert not np.array_equal(honest.members[at + 1 :], again.members[at + 1 :])


@pytest.mark.parametrize("kind", [RidgePaths, RidgeEnsemble])
def test_no_look_ahead_where_the_range_binds(kind: type[RidgePaths | RidgeEnsemble]) -> None:
    """Growth beyond the range seen: the limit at a cutoff comes from what was seen there."""
    y = 1.3 ** np.arange(50.0)
    forecast = kind(widen=0.0).forecast(y, np.array([35, 49]), horizon=4, season=1, stream=np.uint64(2))
    assert forecast.members[0].max() == y[35]
    assert forecast.members[1].max() == y[49]


@named
def test_values_after_the_last_cutoff_may_be_missing(model: Forecaster) -> None:
    series = sample_demand(1).series[0]
    hidden = series.y.copy()
    hidden[101:] = np.nan
    settings = {"horizon": 5, "season": 7, "stream": np.uint64(1)}
    seen = model.forecast(series.y, np.array([90, 100]), **settings)  # type: ignore[arg-type]
    assert arrays(model.forecast(hidden, np.array([90, 100]), **settings)) == arrays(seen)  # type: ignore[arg-type]


@named
def test_a_cutoff_does_not_depend_on_the_others(model: Forecaster) -> None:
    series = sample_demand(3).series[2]
    many = forecast_one(model, series, np.arange(60, 130), horizon=4, key=KEY)
    alone = forecast_one(model, series, np.array([97]), horizon=4, key=KEY)
    assert alone.members[0].tobytes() == many.members[37].tobytes()
    assert alone.std[0].tobytes() == many.std[37].tobytes()


@named
def test_threads_order_and_company_do_not_matter(model: Forecaster) -> None:
    demand = sample_demand(9).series

    def run(series: tuple[Series, ...], threads: int) -> dict[str, list[bytes]]:
        rng = np.random.default_rng(5)
        stream = forecast_stream(model, series, horizon=6, origins=4, rng=rng, threads=threads)
        return {one.id: arrays(forecast) for one, forecast in stream}

    alone = run(demand, 1)
    assert list(run(demand, 3)) == [one.id for one in demand]
    assert run(demand, 3) == alone
    assert run(demand[::-1], 2) == alone
    assert run(demand[4:6], 2) == {one.id: alone[one.id] for one in demand[4:6]}


@named
def test_other_key_other_draws(model: Forecaster) -> None:
    series = sample_demand(1).series[0]
    one, two = (forecast_one(model, series, np.array([100]), horizon=3, key=key) for key in (1, 2))
    assert not np.array_equal(one.members, two.members)


@named
def test_moments_belong_to_the_members(model: Forecaster) -> None:
    series = sample_demand(2).series[1]
    forecast = forecast_one(model, series, np.arange(80, 84), horizon=9, key=KEY)
    assert forecast.coupling == "joint"
    assert forecast.model == model.name
    np.testing.assert_allclose(forecast.mean, forecast.members.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(forecast.epistemic, forecast.members.var(axis=1), rtol=1e-12)
    np.testing.assert_allclose(forecast.std**2, forecast.epistemic + forecast.aleatoric, rtol=1e-9)
    assert not forecast.members.flags.writeable


@named
def test_constant_series(model: Forecaster) -> None:
    for value in (0.0, 5.0, 1e9):
        forecast = model.forecast(np.full(60, value), np.array([40, 59]), horizon=8, season=7, stream=np.uint64(3))
        assert (forecast.members == value).all()
        assert (forecast.std == 0.0).all()


@named
def test_one_value_after_many_zeros(model: Forecaster) -> None:
    y = np.zeros(80)
    y[60] = 9.0
    forecast = model.forecast(y, np.array([59, 60, 79]), horizon=5, season=7, stream=np.uint64(3))
    assert (forecast.members[0] == 0.0).all()
    assert np.isfinite(forecast.std).all()


@named
def test_short_series_is_refused_with_the_length_needed(model: Forecaster) -> None:
    needed = model.min_history(4)
    y = np.arange(40.0) % 5
    model.forecast(y, np.array([needed - 1]), horizon=3, season=4, stream=np.uint64(0))
    with pytest.raises(InputError, match=rf"cutoffs\[0\]: saw {needed - 2}, expected at least {needed - 1}"):
        model.forecast(y, np.array([needed - 2]), horizon=3, season=4, stream=np.uint64(0))


@pytest.mark.parametrize(
    ("y", "cutoffs", "horizon", "message"),
    [
        (np.arange(50.0), [40, 40], 3, "strictly rising indices"),
        (np.arange(50.0), [30, 50], 3, r"cutoffs\[1\]: saw 50, expected below 50"),
        (np.arange(50.0), [], 3, "a list of at least one index"),
        (np.arange(50.0), [30.5], 3, "a list of at least one index"),
        (np.arange(50.0), [30], 0, "horizon: saw 0"),
        (np.zeros((50, 2)), [30], 3, r"y: saw shape \(50, 2\)"),
        (np.where(np.arange(50) == 0, np.nan, 1.0), [30], 3, r"y\[0\]: saw nan"),
        (np.where(np.arange(50) > 3, np.nan, 1.0), [30], 3, "y: saw 4 values up to the first cutoff"),
        (np.where(np.arange(50) == 9, np.inf, 1.0), [30], 3, r"y\[9\]: saw inf"),
    ],
)
@named
def test_refused_inputs(model: Forecaster, y: np.ndarray, cutoffs: list[float], horizon: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.forecast(y, np.array(cutoffs), horizon=horizon, season=4, stream=np.uint64(0))


def test_walk_forward_cutoffs() -> None:
    cutoffs = walk_forward_cutoffs(100, horizon=12, origins=24)
    assert cutoffs.size == 24
    assert cutoffs[-1] + 12 == 99
    assert walk_forward_cutoffs(4, horizon=3, origins=1).tolist() == [0]
    with pytest.raises(InputError, match="length: saw 35, expected at least 36 for 24 cutoffs"):
        walk_forward_cutoffs(35, horizon=12, origins=24)
    for name in ("horizon", "origins", "step"):
        with pytest.raises(InputError, match=f"{name}: saw 0"):
            walk_forward_cutoffs(50, **{"horizon": 3, "origins": 2, "step": 1, name: 0})


def test_actuals_line_up() -> None:
    y = np.arange(60.0)
    forecast = SeasonalNaive(paths=3).forecast(y, np.array([40, 50]), horizon=4, season=1, stream=np.uint64(0))
    assert forecast.actuals(y).tolist() == [[41.0, 42.0, 43.0, 44.0], [51.0, 52.0, 53.0, 54.0]]
    with pytest.raises(InputError, match="y: saw 54 observations, expected at least 55"):
        forecast.actuals(y[:54])


def test_expand_keeps_mean_and_variance() -> None:
    series = sample_demand(2).series[1]
    forecast = forecast_one(RidgeEnsemble(models=8), series, np.array([90, 100]), horizon=6, key=KEY)
    for points in (2, 3, 5):
        wide = forecast.expand(points)
        assert wide.members.shape == (2, 8 * points, 6)
        assert wide.member_std is None
        np.testing.assert_allclose(wide.members.mean(axis=1), forecast.mean, rtol=1e-12)
        np.testing.assert_allclose(wide.members.std(axis=1), forecast.std, rtol=1e-12)
    assert wide.expand() is wide
    with pytest.raises(InputError, match="points: saw 1"):
        forecast.expand(1)


def test_weights_enter_the_parts_of_the_variance() -> None:
    members = np.array([[[0.0], [4.0]]])
    weighted = PathForecast(
        members, np.array([[1.0]]), np.array([[2.0]]), np.array([3]), "m", "joint",
        weights=np.array([0.75, 0.25]), member_std=np.array([[[1.0], [3.0]]]),
    )  # fmt: skip
    assert weighted.epistemic.tolist() == [[3.0]]
    assert weighted.aleatoric.tolist() == [[3.0]]
    assert weighted.expand(2).weights.tolist() == [0.375, 0.375, 0.125, 0.125]  # type: ignore[union-attr]


def test_forecast_record_refuses_wrong_shapes() -> None:
    good = np.zeros((2, 3, 4))
    with pytest.raises(InputError, match=r"forecast.mean: saw shape \(2, 3\), expected shape \(2, 4\)"):
        PathForecast(good, np.zeros((2, 3)), np.zeros((2, 4)), np.zeros(2, np.int64), "m", "joint")
    with pytest.raises(InputError, match=r"forecast.members: saw shape \(3, 4\)"):
        PathForecast(good[0], np.zeros((2, 4)), np.zeros((2, 4)), np.zeros(2, np.int64), "m", "joint")  # type: ignore[arg-type]
    bad = good.copy()
    bad[1, 2, 3] = np.nan
    with pytest.raises(InputError, match=r"forecast.members\[1, 2, 3\]: saw nan"):
        PathForecast(bad, np.zeros((2, 4)), np.zeros((2, 4)), np.zeros(2, np.int64), "m", "joint")


def test_stream_refuses_zero_threads() -> None:
    with pytest.raises(InputError, match="threads: saw 0"):
        next(
            forecast_stream(MODELS[0], sample_demand(1), horizon=2, origins=2, rng=np.random.default_rng(0), threads=0)
        )


def test_benchmark_runs_and_does_not_depend_on_threads() -> None:
    from bench.forecasts import run

    one, two = (run(series=6, origins=3, paths=10, threads=threads) for threads in (1, 2))
    assert one["checksum"] == two["checksum"]
    assert one["series"] == 6


def test_the_first_compilation_is_told_once_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def one_more(x: float) -> float:
        return x + 1.0

    def two_more(x: float) -> float:
        return x + 2.0

    made: list[Any] = [cache.compiled(one_more), cache.compiled(two_more)]
    for function in made:
        function._cache = NullCache()  # nothing on disk
    monkeypatch.setattr(cache, "_said", threading.Event())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert [function(1.0) for function in made] == [2.0, 3.0]
    assert capsys.readouterr().err == "ucsearch: compiling its own loops, once for this machine (some seconds)\n"
