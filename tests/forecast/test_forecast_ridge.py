"""The compiled ridge autoregression against plain NumPy, and its behaviour on known processes."""

import math

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.forecast import RidgeEnsemble, RidgePaths, default_lags
from ucsearch.forecast.kernels import HEAD_SIZE, add_row, draw_coefficients, fit_variance_head, predict_variance, solve

STREAM = np.uint64(21)


def process(length: int = 120, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = np.empty(length)
    y[0] = 50.0
    for t in range(1, length):
        y[t] = 20.0 + 0.6 * y[t - 1] + 4.0 * rng.normal()
    return y + 6.0 * np.sin(2.0 * np.pi * np.arange(length) / 12)


def design(y: np.ndarray, lags: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Regressors and targets for every time that all lags reach, written the slow way."""
    rows, targets = [], []
    for t in range(lags[-1], y.size):
        rows.append([y[:t].mean() - y[t - 1], *(y[t - lag] - y[t - 1] for lag in lags[1:])])
        targets.append(y[t] - y[t - 1])
    return np.array(rows), np.array(targets)


def closed_form(
    x: np.ndarray, target: np.ndarray, ridge: float, pull: float, discount: float
) -> tuple[np.ndarray, float]:
    """Least squares on rows extended by the penalty, with an intercept column that is not penalised."""
    count, size = x.shape
    weight = np.sqrt(discount ** np.arange(count - 1, -1, -1.0))
    total = (weight**2).sum()
    centre = (weight**2 @ x) / total
    variance = (weight**2 @ (x - centre) ** 2) / total
    penalty = np.sqrt(ridge * variance * np.r_[pull, np.ones(size - 1)])
    top = np.column_stack([x, np.ones(count)]) * weight[:, None]
    extended = np.vstack([top, np.column_stack([np.diag(penalty), np.zeros(size)])])
    solution = np.linalg.lstsq(extended, np.r_[target * weight, np.zeros(size)], rcond=None)[0]
    return solution[:-1], float(solution[-1])


@pytest.mark.parametrize(("ridge", "pull", "discount"), [(10.0, 5.0, 0.998), (0.0, 1.0, 1.0), (200.0, 1.0, 0.9)])
def test_solve_equals_least_squares(ridge: float, pull: float, discount: float) -> None:
    lags = (1, 2, 3, 12)
    x, target = design(process(), lags)
    gram = np.zeros((6, 6))
    for row in np.column_stack([x, target]):
        add_row(gram, row, 1.0, discount)
    slope = np.zeros(4)
    intercept = solve(gram, ridge, pull, np.empty((5, 5)), slope)
    expected, constant = closed_form(x, target, ridge, pull, discount)
    np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-10)
    assert intercept == pytest.approx(constant, rel=1e-8, abs=1e-10)


def test_dependent_regressors_get_one_slope() -> None:
    x = np.random.default_rng(1).normal(size=30)
    gram = np.zeros((4, 4))
    for value in x:
        add_row(gram, np.array([value, value, 3.0 * value + 1.0]), 1.0, 1.0)
    slope = np.zeros(2)
    assert solve(gram, 0.0, 1.0, np.empty((3, 3)), slope) == pytest.approx(1.0)
    assert slope[0] == pytest.approx(3.0)
    assert slope[1] == 0.0


def slow_forecast(y: np.ndarray, n: int, lags: tuple[int, ...], model: RidgePaths, horizon: int) -> np.ndarray:
    """The mean path at cutoff n - 1 by plain recursion from the closed form."""
    x, target = design(y[:n], lags)
    slope, constant = closed_form(x, target, model.ridge, model.pull, model.discount)
    level = y[:n].mean()
    path = list(y[:n])
    for _ in range(horizon):
        last = path[-1]
        row = np.array([level - last, *(path[-lag] - last for lag in lags[1:])])
        path.append(last + constant + slope @ row)
    return np.array(path[n:])


def slow_errors(y: np.ndarray, n: int, lags: tuple[int, ...], model: RidgePaths) -> np.ndarray:
    """One-step errors, each from a fit to what came before it."""
    errors = []
    for t in range(lags[-1] + 3, n):
        x, target = design(y[: t + 1], lags)
        slope, constant = closed_form(x[:-1], target[:-1], model.ridge, model.pull, model.discount)
        errors.append(target[-1] - constant - x[-1] @ slope)
    return np.array(errors[-model.residuals :])


def test_mean_path_equals_the_recursion() -> None:
    y = process()
    model = RidgePaths(paths=2000, vary=False, widen=100.0)
    cutoffs = np.array([90, 119])
    forecast = model.forecast(y, cutoffs, horizon=8, season=12, stream=STREAM)
    for at, cutoff in enumerate(cutoffs):
        expected = slow_forecast(y, cutoff + 1, default_lags(12), model, 8)
        # Centred residuals: the mean of the paths is the recursion up to stratified sampling noise.
        np.testing.assert_allclose(forecast.mean[at], expected, atol=0.02 * forecast.std[at].max())


def test_first_step_is_the_fit_plus_walk_forward_errors() -> None:
    y = process()
    model = RidgePaths(paths=60, vary=False, residuals=40, widen=100.0)
    forecast = model.forecast(y, np.array([118]), horizon=1, season=1, stream=STREAM)
    errors = slow_errors(y, 119, default_lags(1), model)
    assert errors.size == 40
    centre = slow_forecast(y, 119, default_lags(1), model, 1)[0]
    allowed = centre + errors - errors.mean()
    off = np.abs(forecast.members[0, :, 0][:, None] - allowed).min(axis=1)
    assert off.max() < 1e-7
    # Sixty strata over forty errors: each error is used once or twice.
    used = np.abs(forecast.members[0, :, 0][:, None] - allowed).argmin(axis=1)
    assert set(np.bincount(used, minlength=40).tolist()) <= {1, 2}


def test_coefficient_draws_have_the_posterior_moments() -> None:
    x, target = design(process(60), (1, 2, 3))
    gram, chol, slope = np.zeros((5, 5)), np.empty((4, 4)), np.zeros(3)
    for row in np.column_stack([x, target]):
        add_row(gram, row, 1.0, 1.0)
    intercept = solve(gram, 10.0, 5.0, chol, slope)
    phi, const = np.empty((3, 20000)), np.empty(20000)
    draw_coefficients(gram, chol, slope, intercept, 7.0, 2.0, STREAM, phi, const)
    # Opposite pairs: every pair has the fitted model as its mean.
    plain = np.r_[1.0 - slope.sum(), slope[1:]]
    np.testing.assert_allclose((phi[:, ::2] + phi[:, 1::2]) / 2, np.tile(plain[:, None], 10000), atol=1e-12)
    np.testing.assert_allclose((const[::2] + const[1::2]) / 2, intercept + slope[0] * 7.0, atol=1e-10)
    centred = x - x.mean(axis=0)
    penalty = np.diag(centred.var(axis=0) * np.array([50.0, 10.0, 10.0]))
    covariance = 4.0 * np.linalg.inv(centred.T @ centred + penalty)
    slopes = np.vstack([1.0 - phi.sum(axis=0), phi[1:]])
    np.testing.assert_allclose(np.cov(slopes), covariance, rtol=0.1, atol=0.02 * covariance.max())
    draw_coefficients(gram, chol, slope, intercept, 7.0, 0.0, STREAM, phi, const)
    assert (phi.std(axis=1) < 1e-15).all()


def test_known_autoregression_is_recovered() -> None:
    rng = np.random.default_rng(8)
    y = np.empty(4000)
    y[0] = 0.0
    for t in range(1, y.size):
        y[t] = 0.7 * y[t - 1] + rng.normal()
    forecast = RidgePaths(paths=1000, discount=1.0, residuals=1000).forecast(
        y, np.array([3999]), horizon=6, season=1, stream=STREAM
    )
    steps = np.arange(1, 7)
    np.testing.assert_allclose(forecast.mean[0], 0.7**steps * y[-1], atol=0.15)
    np.testing.assert_allclose(forecast.std[0], np.sqrt((1 - 0.49**steps) / (1 - 0.49)), rtol=0.08)


def test_varying_coefficients_widen_short_series() -> None:
    y = process(24, seed=5)
    wide = RidgePaths(paths=400).forecast(y, np.array([23]), horizon=6, season=1, stream=STREAM)
    narrow = RidgePaths(paths=400, vary=False).forecast(y, np.array([23]), horizon=6, season=1, stream=STREAM)
    assert (wide.std[0, 1:] > narrow.std[0, 1:]).all()
    assert wide.std[0, -1] > 1.1 * narrow.std[0, -1]


def test_paths_stay_in_the_widened_range() -> None:
    y = 1.5 ** np.arange(40.0)
    forecast = RidgePaths(widen=0.5).forecast(y, np.array([39]), horizon=24, season=1, stream=STREAM)
    room = 0.5 * (y.max() - y.min())
    assert forecast.members.max() <= y.max() + room
    assert forecast.members.min() >= y.min() - room
    demand = np.array([0.0, 0.0, 4.0, 0.0, 1.0] * 12)
    held = RidgePaths(floor=0.0).forecast(demand, np.array([59]), horizon=6, season=5, stream=STREAM)
    assert held.members.min() >= 0.0


def test_scale_and_shift_carry_over() -> None:
    y = process()
    one = RidgePaths().forecast(y, np.array([119]), horizon=6, season=12, stream=STREAM)
    other = RidgePaths().forecast(1000.0 * y - 7.0, np.array([119]), horizon=6, season=12, stream=STREAM)
    np.testing.assert_allclose(other.members, 1000.0 * one.members - 7.0, rtol=1e-7, atol=1e-5)


def test_ensemble_spread_shrinks_with_data() -> None:
    y = process(1200, seed=3)
    model = RidgeEnsemble(models=40, discount=1.0)
    forecast = model.forecast(y, np.array([30, 200, 1199]), horizon=3, season=1, stream=STREAM)
    epistemic = forecast.epistemic[:, 0]
    assert epistemic[0] > 3.0 * epistemic[1] > 3.0 * epistemic[2]
    assert forecast.aleatoric[2, 0] > 20.0 * epistemic[2]


def test_ensemble_members_are_weighted_fits() -> None:
    """Members differ only by their weights, so their mean is near the unweighted fit."""
    y = process(400, seed=4)
    ensemble = RidgeEnsemble(models=60, widen=50.0).forecast(y, np.array([399]), horizon=4, season=12, stream=STREAM)
    plain = slow_forecast(y, 400, default_lags(12), RidgePaths(), 4)
    np.testing.assert_allclose(ensemble.mean[0], plain, atol=0.5 * math.sqrt(ensemble.epistemic[0].max()))


def test_variance_head_follows_the_level() -> None:
    rng = np.random.default_rng(6)
    levels = rng.uniform(1.0, 100.0, size=2000)
    errors = 0.2 * levels * rng.normal(size=2000)
    head = np.empty(HEAD_SIZE)
    fit_variance_head(errors, np.full(2000, 100.0), levels, head)
    for level in (20.0, 80.0):
        assert math.sqrt(predict_variance(head, 100.0, level)) == pytest.approx(0.2 * level, rel=0.25)
    # Calibrated on the average, whatever the shape.
    ratio = [e * e / predict_variance(head, 100.0, lv) for e, lv in zip(errors, levels, strict=True)]
    assert np.mean(ratio) == pytest.approx(1.0, rel=1e-6)


def test_variance_head_follows_recent_errors() -> None:
    rng = np.random.default_rng(7)
    calm = np.tile(np.repeat([1.0, 10.0], 100), 10)
    errors = calm * rng.normal(size=2000)
    head = np.empty(HEAD_SIZE)
    fit_variance_head(errors, calm * calm, np.full(2000, 50.0), head)
    assert math.sqrt(predict_variance(head, 1.0, 50.0)) == pytest.approx(1.0, rel=0.25)
    assert math.sqrt(predict_variance(head, 100.0, 50.0)) == pytest.approx(10.0, rel=0.25)
    # Never outside what was seen.
    assert predict_variance(head, 1e12, 50.0) == predict_variance(head, 100.0, 50.0)


def test_variance_head_without_errors() -> None:
    head = np.empty(HEAD_SIZE)
    fit_variance_head(np.zeros(5), np.zeros(5), np.ones(5), head)
    assert predict_variance(head, 0.0, 1.0) == 0.0


def test_ensemble_spread_comes_from_the_latest_errors() -> None:
    rng = np.random.default_rng(12)
    y = 40.0 + np.cumsum(rng.normal(size=160) * np.r_[np.full(100, 5.0), np.full(60, 0.5)])
    model = RidgeEnsemble(models=3, residuals=50, widen=50.0)
    forecast = model.forecast(y, np.array([159]), horizon=1, season=1, stream=STREAM)
    errors = slow_errors(y, 160, default_lags(1), RidgePaths(residuals=10000))
    volatility = [errors[0] ** 2]
    for error in errors:
        volatility.append(0.9 * volatility[-1] + 0.1 * error**2)
    levels = y[160 - errors.size :] - errors
    head = np.empty(HEAD_SIZE)
    fit_variance_head(errors[-50:], np.array(volatility[:-1])[-50:], levels[-50:], head)
    expected = [math.sqrt(predict_variance(head, volatility[-1], m)) for m in forecast.members[0, :, 0]]
    assert forecast.member_std is not None
    np.testing.assert_allclose(forecast.member_std[0, :, 0], expected, rtol=1e-6)


def test_aleatoric_spread_adds_up_along_a_random_walk() -> None:
    rng = np.random.default_rng(9)
    y = 1e6 + np.cumsum(rng.normal(size=3000))
    # A heavy penalty leaves the random walk, whose variance grows by one per step.
    forecast = RidgeEnsemble(models=4, ridge=1e9, discount=1.0, residuals=2000).forecast(
        y, np.array([2999]), horizon=9, season=1, stream=STREAM
    )
    np.testing.assert_allclose(forecast.aleatoric[0] / forecast.aleatoric[0, 0], np.arange(1, 10), rtol=1e-3)
    assert 0.5 < forecast.aleatoric[0, 0] < 2.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lags": (2, 3)}, "lags: saw"),
        ({"lags": ()}, "lags: saw"),
        ({"lags": (1, 3, 3)}, "lags: saw"),
        ({"ridge": -1.0}, "ridge: saw -1.0"),
        ({"ridge": math.nan}, "ridge: saw nan"),
        ({"pull": math.inf}, "pull: saw inf"),
        ({"discount": 0.0}, "discount: saw 0.0"),
        ({"discount": 1.01}, "discount: saw 1.01"),
        ({"widen": -0.1}, "widen: saw -0.1"),
        ({"residuals": 1}, "residuals: saw 1"),
        ({"floor": math.inf}, "floor: saw inf"),
    ],
)
def test_refused_settings(settings: dict[str, object], message: str) -> None:
    for kind in (RidgePaths, RidgeEnsemble):
        with pytest.raises(InputError, match=message):
            kind(**settings)


def test_refused_sizes() -> None:
    with pytest.raises(InputError, match="paths: saw 0"):
        RidgePaths(paths=0)
    with pytest.raises(InputError, match="models: saw 1"):
        RidgeEnsemble(models=1)
    with pytest.raises(InputError, match="season: saw 0"):
        RidgePaths().min_history(0)


def test_default_lags() -> None:
    assert default_lags(1) == (1, 2, 3, 4)
    assert default_lags(4) == (1, 2, 3, 4, 5)
    assert default_lags(24) == (1, 2, 3, 4, 24, 25)
    assert RidgePaths().min_history(24) == 25 + 3 + 4
