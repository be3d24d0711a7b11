"""The conformal guarantee itself, by repetition on data with known truth, and against MAPIE and crepes."""

import numpy as np
import pytest

from ucsearch.forecast import SplitConformal, adaptive_conformal

pytestmark = pytest.mark.slow

REPEATS = 3000


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.standard_t(3, size=shape)


@pytest.mark.parametrize("count", [19, 50, 199])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_split_coverage_on_exchangeable_data(count: int, level: float) -> None:
    """Coverage is rank / (n + 1) exactly in expectation, for any distribution of errors."""
    rng = np.random.default_rng([count, int(100 * level)])
    hits = 0.0
    for _ in range(REPEATS):
        fitted = SplitConformal.from_mean(np.zeros((count, 1)), heavy(rng, (count, 1)), level=level)
        hits += fitted.around_mean(np.zeros((20, 1))).coverage(heavy(rng, (20, 1)))
    exact = np.ceil((count + 1) * level - 1e-9) / (count + 1)
    assert level <= exact + 1e-9
    # Given the calibration set, coverage is Beta distributed; its variance plus that of 20 draws.
    spread = np.sqrt(exact * (1.0 - exact) * (1.0 / (count + 2) + 1.0 / 20) / REPEATS)
    assert abs(hits / REPEATS - exact) < 4.0 * spread


def test_interval_form_repairs_wrong_quantiles() -> None:
    rng = np.random.default_rng(5)
    hits, raw = 0.0, 0.0
    for _ in range(REPEATS):
        low, high = np.full((99, 1), -0.3), np.full((99, 1), 0.5)
        fitted = SplitConformal.from_interval(low, high, heavy(rng, (99, 1)), level=0.9)
        y = heavy(rng, (20, 1))
        hits += fitted.around_interval(low[:20], high[:20]).coverage(y) / REPEATS
        raw += float(((y >= -0.3) & (y <= 0.5)).mean()) / REPEATS
    assert raw < 0.4
    assert hits == pytest.approx(0.9, abs=0.006)


def test_scaled_form_covers_each_regime() -> None:
    """With the true spread known, coverage holds in calm and in wild times alike."""
    rng = np.random.default_rng(6)
    calm, wild = 0.0, 0.0
    repeats = 1000
    for _ in range(repeats):
        std = rng.choice([1.0, 10.0], size=(199, 1))
        fitted = SplitConformal.from_mean(np.zeros((199, 1)), std * heavy(rng, (199, 1)), level=0.8, std=std)
        for spread in (1.0, 10.0):
            scale = np.full((20, 1), spread)
            got = fitted.around_mean(np.zeros((20, 1)), scale).coverage(scale * heavy(rng, (20, 1)))
            if spread == 1.0:
                calm += got / repeats
            else:
                wild += got / repeats
    assert calm == pytest.approx(0.8, abs=0.015)
    assert wild == pytest.approx(0.8, abs=0.015)


@pytest.mark.parametrize("step", [0.005, 0.02, 0.1])
def test_adaptive_coverage_on_drifting_data(step: float) -> None:
    rng = np.random.default_rng(7)
    times = 20000
    scale = np.exp(np.cumsum(0.02 * rng.normal(size=times)).clip(-4.0, 4.0))
    run = adaptive_conformal(np.zeros(times), scale * heavy(rng, (times,)), level=0.9, step=step, window=300)
    # The finite-sample bound of Gibbs and Candes 2021, proposition 4.1.
    assert abs(run.coverage - 0.9) <= (0.9 + step) / (step * times)


def test_same_intervals_as_crepes() -> None:
    crepes = pytest.importorskip("crepes")
    rng = np.random.default_rng(8)
    # Counts for which (n + 1) * level is no whole number: there crepes' rank falls short by rounding.
    for count in (40, 98, 250):
        mean, y, std = rng.normal(size=count), heavy(rng, (count,)), rng.uniform(0.5, 3.0, size=count)
        new, new_std = rng.normal(size=30), rng.uniform(0.5, 3.0, size=30)
        for level in (0.8, 0.9, 0.95):
            theirs = crepes.ConformalRegressor().fit(residuals=y - mean).predict_int(y_hat=new, confidence=level)
            ours = SplitConformal.from_mean(mean[:, None], y[:, None], level=level).around_mean(new[:, None])
            np.testing.assert_allclose(np.column_stack([ours.lower, ours.upper]), theirs, rtol=1e-9)
            theirs = (
                crepes.ConformalRegressor()
                .fit(residuals=y - mean, sigmas=std)
                .predict_int(y_hat=new, sigmas=new_std, confidence=level)
            )
            scaled = SplitConformal.from_mean(mean[:, None], y[:, None], level=level, std=std[:, None])
            ends = scaled.around_mean(new[:, None], new_std[:, None])
            np.testing.assert_allclose(np.column_stack([ends.lower, ends.upper]), theirs, rtol=1e-9)


def test_same_intervals_as_mapie() -> None:
    pytest.importorskip("mapie")
    regression = pytest.importorskip("mapie.regression")
    linear = pytest.importorskip("sklearn.linear_model")
    if not hasattr(regression, "SplitConformalRegressor"):
        pytest.skip("this MAPIE has no SplitConformalRegressor")
    rng = np.random.default_rng(9)
    x = rng.normal(size=(500, 2))
    y = x @ [1.0, -2.0] + heavy(rng, (500,))
    model = linear.LinearRegression().fit(x[:200], y[:200])
    theirs = regression.SplitConformalRegressor(model, confidence_level=0.9, prefit=True)
    theirs.conformalize(x[200:399], y[200:399])
    _, ends = theirs.predict_interval(x[399:])
    fitted = SplitConformal.from_mean(model.predict(x[200:399])[:, None], y[200:399, None], level=0.9)
    ours = fitted.around_mean(model.predict(x[399:])[:, None])
    np.testing.assert_allclose(ours.lower[:, 0], ends[:, 0, 0], rtol=1e-9)
    np.testing.assert_allclose(ours.upper[:, 0], ends[:, 1, 0], rtol=1e-9)
