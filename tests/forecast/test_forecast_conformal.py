import math

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.forecast import PathForecast, SplitConformal, adaptive_conformal, conformal_quantile


def test_quantile_rank() -> None:
    scores = [5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 7.0, 8.0, 6.0]  # 1..9
    assert conformal_quantile(scores, 0.5) == 5.0
    assert conformal_quantile(scores, 0.8) == 8.0
    assert conformal_quantile(scores, 0.9) == 9.0
    assert conformal_quantile(scores, 0.91) == math.inf
    assert conformal_quantile(scores, 0.01) == 1.0


def test_intervals_around_a_mean() -> None:
    mean = np.zeros((9, 2))
    y = np.column_stack([np.arange(1.0, 10.0), -10.0 * np.arange(1.0, 10.0)])
    fitted = SplitConformal.from_mean(mean, y, level=0.8)
    assert fitted.quantile.tolist() == [8.0, 80.0]
    ends = fitted.around_mean(np.array([[100.0, 0.0]]))
    assert (ends.lower.tolist(), ends.upper.tolist()) == ([[92.0, -80.0]], [[108.0, 80.0]])
    assert ends.coverage(np.array([[92.0, 81.0]])) == 0.5


def test_scaled_errors() -> None:
    std = np.arange(1.0, 10.0)[:, None]
    y = 2.0 * std
    fitted = SplitConformal.from_mean(np.zeros((9, 1)), y, level=0.8, std=std)
    assert fitted.quantile.tolist() == [2.0]
    ends = fitted.around_mean(np.array([[0.0], [0.0]]), np.array([[1.0], [5.0]]))
    assert ends.upper.ravel().tolist() == [2.0, 10.0]


def test_intervals_can_grow_and_shrink() -> None:
    low, high = np.full((9, 1), -10.0), np.full((9, 1), 10.0)
    tight = SplitConformal.from_interval(low, high, np.arange(1.0, 10.0)[:, None] / 2, level=0.8)
    assert tight.quantile.tolist() == [-6.0]
    ends = tight.around_interval([[-10.0]], [[10.0]])
    assert (ends.lower.item(), ends.upper.item()) == (-4.0, 4.0)
    # Two half widths of 5 shrunk by 6 would cross; they meet instead.
    ends = tight.around_interval([[-5.0]], [[5.0]])
    assert (ends.lower.item(), ends.upper.item()) == (0.0, 0.0)
    wide = SplitConformal.from_interval(low, high, np.arange(11.0, 20.0)[:, None], level=0.8)
    assert wide.quantile.tolist() == [8.0]


def test_too_few_scores_give_infinite_intervals() -> None:
    fitted = SplitConformal.from_mean(np.zeros((5, 1)), np.ones((5, 1)), level=0.9)
    assert fitted.around_mean([[0.0]]).upper.item() == math.inf


def paths(members: np.ndarray) -> PathForecast:
    return PathForecast(members, members.mean(axis=1), members.std(axis=1), np.arange(len(members)), "m", "joint")


def test_stretched_paths_have_the_calibrated_width() -> None:
    rng = np.random.default_rng(1)
    forecast = paths(rng.normal(size=(4, 400, 3)))
    fitted = SplitConformal.from_mean(
        np.zeros((99, 3)), 3.0 * rng.normal(size=(99, 3)), level=0.9, std=np.ones((99, 3))
    )
    stretched = fitted.stretch(forecast)
    off = np.abs(stretched.members - stretched.mean[:, None, :])
    np.testing.assert_allclose(np.quantile(off, 0.9, axis=1), fitted.quantile * forecast.std, rtol=1e-12)
    np.testing.assert_allclose(stretched.mean, forecast.mean)
    np.testing.assert_allclose(stretched.std, stretched.members.std(axis=1), rtol=1e-12)
    assert np.array_equal(np.argsort(stretched.members, axis=1), np.argsort(forecast.members, axis=1))
    assert stretched.model == "m+conformal"
    few = SplitConformal.from_mean(np.zeros((5, 3)), np.ones((5, 3)), level=0.9, std=np.ones((5, 3)))
    with pytest.raises(InputError, match=r"quantile\[0\]: saw inf.*5 calibration forecasts are too few"):
        few.stretch(forecast)


def test_stretch_leaves_a_point_forecast_alone() -> None:
    fitted = SplitConformal.from_mean(np.zeros((9, 1)), np.ones((9, 1)), level=0.5, std=np.ones((9, 1)))
    assert (fitted.stretch(paths(np.full((1, 5, 1), 3.0))).members == 3.0).all()


def slow_adaptive(mean: np.ndarray, y: np.ndarray, level: float, step: float, window: int, delay: int) -> list[float]:
    """Half widths, straight from the update rule."""
    miss_rate, halves, misses = 1.0 - level, [], []
    for t in range(len(y)):
        if t >= delay:
            miss_rate += step * ((1.0 - level) - misses[t - delay])
        known = np.abs(y - mean)[max(0, t - delay + 1 - window) : max(0, t - delay + 1)]
        if miss_rate <= 0.0 or known.size == 0:
            half = math.inf
        elif miss_rate >= 1.0:
            half = 0.0
        else:
            half = conformal_quantile(known, 1.0 - miss_rate)
        halves.append(half)
        misses.append(float(abs(y[t] - mean[t]) > half))
    return halves


@pytest.mark.parametrize(("window", "delay", "step"), [(30, 1, 0.05), (500, 4, 0.02), (20, 1, 0.8)])
def test_adaptive_equals_the_rule(window: int, delay: int, step: float) -> None:
    rng = np.random.default_rng(2)
    mean, y = rng.normal(size=150), 2.0 * rng.normal(size=150)
    run = adaptive_conformal(mean, y, level=0.8, step=step, window=window, delay=delay)
    halves = slow_adaptive(mean, y, 0.8, step, window, delay)
    np.testing.assert_allclose(run.upper, mean + halves)
    np.testing.assert_allclose(run.lower, mean - halves)
    assert run.coverage == 1.0 - np.mean(np.abs(y - mean) > halves)


def test_adaptive_looks_only_back() -> None:
    rng = np.random.default_rng(3)
    mean, y = np.zeros(100), rng.normal(size=100)
    other = y.copy()
    other[60:] *= 1e3
    one, two = (adaptive_conformal(mean, series, level=0.9, delay=2) for series in (y, other))
    assert one.upper[:62].tobytes() == two.upper[:62].tobytes()
    assert not np.array_equal(one.upper, two.upper)


def test_adaptive_recovers_after_a_break_and_split_does_not() -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(size=3000) * np.r_[np.ones(1000), np.full(2000, 4.0)]
    run = adaptive_conformal(np.zeros(3000), y, level=0.9, step=0.05, window=100)
    assert 1.0 - run.missed[1000:].mean() == pytest.approx(0.9, abs=0.02)
    fixed = SplitConformal.from_mean(np.zeros((1000, 1)), y[:1000, None], level=0.9)
    assert fixed.around_mean(np.zeros((2000, 1))).coverage(y[1000:, None]) < 0.5


def test_adaptive_long_run_bound() -> None:
    # Gibbs and Candes 2021, proposition 4.1, on outcomes that are as bad as can be: errors that always grow.
    step, times, level = 0.05, 2000, 0.9
    run = adaptive_conformal(np.zeros(times), np.arange(1.0, times + 1.0), level=level, step=step, window=50)
    assert abs(run.coverage - level) <= (level + step) / (step * times)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 1.0}, "level: saw 1.0"),
        ({"level": math.nan}, "level: saw nan"),
        ({"level": 0.9, "step": 0.0}, "step: saw 0.0"),
        ({"level": 0.9, "window": 0}, "window: saw 0"),
        ({"level": 0.9, "delay": 0}, "delay: saw 0"),
        ({"level": 0.9, "std": [1.0, 0.0, 1.0]}, r"std\[1\]: saw 0.0"),
    ],
)
def test_refused_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        adaptive_conformal([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], **settings)  # type: ignore[arg-type]


def test_refused_shapes_and_kinds() -> None:
    with pytest.raises(InputError, match=r"y: saw shape \(3, 1\), expected shape \(2, 1\)"):
        SplitConformal.from_mean(np.zeros((2, 1)), np.zeros((3, 1)), level=0.9)
    with pytest.raises(InputError, match=r"y\[1, 0\]: saw nan"):
        SplitConformal.from_mean(np.zeros((2, 1)), [[0.0], [math.nan]], level=0.9)
    fitted = SplitConformal.from_mean(np.zeros((20, 2)), np.zeros((20, 2)), level=0.9)
    with pytest.raises(InputError, match=r"mean: saw shape \(1, 3\), expected shape \(O, 2\)"):
        fitted.around_mean(np.zeros((1, 3)))
    with pytest.raises(InputError, match="kind: saw a call for 'interval', expected 'mean'"):
        fitted.around_interval(np.zeros((1, 2)), np.ones((1, 2)))
