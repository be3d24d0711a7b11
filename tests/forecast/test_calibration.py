"""The compiled calibration measures against plain loops."""

import math
from itertools import pairwise

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.forecast import (
    Calibration,
    RidgeEnsemble,
    RidgePaths,
    calibration_report,
    crps_ensemble,
    forecast_stream,
)
from ucsearch.lab.data import sample_demand


def slow_crps(x: np.ndarray, y: float, w: np.ndarray) -> float:
    """Integral of (F(z) - [z >= y])^2, piece by piece between jumps."""
    points = np.sort(np.r_[x, y])
    total = 0.0
    for left, right in pairwise(points):
        cdf = w[x <= left].sum()
        total += (right - left) * (cdf - float(left >= y)) ** 2
    return total


@pytest.mark.parametrize("weighted", [False, True])
def test_crps_equals_the_integral(weighted: bool) -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 7, 40):
        x = rng.normal(size=(6, size)).round(1)  # rounding makes ties
        y = rng.normal(size=6).round(1)
        w = rng.dirichlet(np.ones(size)) if weighted else np.full(size, 1.0 / size)
        fast = crps_ensemble(x, y, weights=w if weighted else None)
        for row in range(6):
            assert fast[row] == pytest.approx(slow_crps(x[row], y[row], w), abs=1e-12)


def test_crps_equals_the_energy_form() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.gamma(2.0, size=(5, 30)), rng.gamma(2.0, size=5)
    for row in range(5):
        near = np.mean([abs(a - y[row]) for a in x[row]])
        pairs = np.mean([abs(a - b) for a in x[row] for b in x[row]])
        assert crps_ensemble(x, y)[row] == pytest.approx(near - 0.5 * pairs, abs=1e-12)


def test_crps_of_a_normal_sample_approaches_the_formula() -> None:
    x = np.random.default_rng(3).normal(size=(1, 200000))
    y = 0.7
    density = math.exp(-0.5 * y * y) / math.sqrt(2.0 * math.pi)
    below = 0.5 * (1.0 + math.erf(y / math.sqrt(2.0)))
    exact = y * (2.0 * below - 1.0) + 2.0 * density - 1.0 / math.sqrt(math.pi)
    assert crps_ensemble(x, np.array([y]))[0] == pytest.approx(exact, abs=3e-3)


def test_crps_of_far_numbers_keeps_its_digits() -> None:
    x, y = np.array([[1.0, 2.0, 4.0]]), np.array([2.5])
    assert crps_ensemble(x + 1e9, y + 1e9)[0] == pytest.approx(crps_ensemble(x, y)[0], abs=1e-9)


def slow_report(x: np.ndarray, y: np.ndarray, levels: tuple[float, ...], bins: int) -> dict[str, np.ndarray]:
    count, size, steps = x.shape
    inside, width = np.zeros((len(levels), steps)), np.zeros((len(levels), steps))
    crps, pit = np.zeros(steps), np.zeros(bins)
    equal = np.full(size, 1.0 / size)
    for n in range(count):
        for h in range(steps):
            sample, actual = x[n, :, h], y[n, h]
            crps[h] += slow_crps(sample, actual, equal) / count
            for at, level in enumerate(levels):
                low, high = np.quantile(sample, [0.5 - level / 2, 0.5 + level / 2], method="weibull")
                inside[at, h] += (low <= actual <= high) / count
                width[at, h] += (high - low) / count
            first, last = (sample < actual).sum() / (size + 1), ((sample <= actual).sum() + 1) / (size + 1)
            for k in range(bins):
                overlap = min(last, (k + 1) / bins) - max(first, k / bins)
                pit[k] += max(0.0, overlap) / (last - first) / (count * steps)
    return {"coverage_by_step": inside, "width_by_step": width, "crps_by_step": crps, "pit": pit}


def test_report_equals_the_loops() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(30, 15, 3)).round(1), rng.normal(size=(30, 3)).round(1)
    levels = (0.5, 0.8, 0.9)
    report = calibration_report(x, y, levels=levels, bins=7, model="m")
    for name, expected in slow_report(x, y, levels, 7).items():
        np.testing.assert_allclose(getattr(report, name), expected, atol=1e-12, err_msg=name)
    assert report.pit.sum() == pytest.approx(1.0)
    assert report.coverage.tolist() == pytest.approx(report.coverage_by_step.mean(axis=1).tolist())
    assert report.crps == pytest.approx(report.crps_by_step.mean())
    assert (report.count, report.model) == (30, "m")


def test_weighted_members_equal_repeated_ones() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(20, 3, 2)), rng.normal(size=(20, 2))
    weighted = calibration_report(x, y, weights=[2.0, 1.0, 1.0])
    repeated = calibration_report(x[:, [0, 0, 1, 2], :], y, weights=[1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(weighted.crps_by_step, repeated.crps_by_step, atol=1e-12)
    np.testing.assert_allclose(weighted.coverage_by_step, repeated.coverage_by_step, atol=1e-12)


def test_honest_forecasts_look_honest() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(4000, 60, 1)), rng.normal(size=(4000, 1))
    honest = calibration_report(x, y)
    np.testing.assert_allclose(honest.coverage, honest.levels, atol=0.02)
    assert honest.pit_distance < 0.02
    narrow = calibration_report(0.5 * x, y)
    assert (narrow.coverage < honest.coverage - 0.1).all()
    assert narrow.pit_distance > 0.1
    assert (narrow.width < honest.width).all()
    assert narrow.crps > honest.crps


def test_parts_add_up_to_the_whole() -> None:
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(10, 8, 2)), rng.normal(size=(10, 2))
    parts = Calibration(2)
    parts.add(x[:3], y[:3])
    parts.add(x[3:], y[3:])
    whole = calibration_report(x, y)
    assert parts.report().count == whole.count == 10
    for (name, nominal, part), expected in zip(parts.report().rows(), whole.rows(), strict=True):
        assert (name, nominal) == expected[:2]
        assert part == pytest.approx(expected[2], rel=1e-12)


def test_scale_divides_crps_and_width() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(10, 8, 2)), rng.normal(size=(10, 2))
    plain, scaled = Calibration(2), Calibration(2)
    plain.add(x, y)
    scaled.add(50.0 * x, 50.0 * y, scale=50.0)
    np.testing.assert_allclose(scaled.report().crps, plain.report().crps, rtol=1e-12)
    np.testing.assert_allclose(scaled.report().width, plain.report().width, rtol=1e-12)
    assert scaled.report().coverage.tolist() == plain.report().coverage.tolist()


def test_rows_for_a_table() -> None:
    report = calibration_report(np.zeros((1, 2, 1)), np.zeros((1, 1)), levels=(0.9,))
    assert report.rows()[:2] == [("coverage 0.9", 0.9, 1.0), ("width 0.9", None, 0.0)]
    assert [row[0] for row in report.rows()[2:]] == ["crps", "pit distance"]


@pytest.mark.parametrize("model", [RidgePaths(), RidgeEnsemble()], ids=lambda m: m.name)
def test_forecasts_of_the_sample_are_roughly_calibrated(model: RidgePaths | RidgeEnsemble) -> None:
    gathered = Calibration(7)
    rng = np.random.default_rng(9)
    for one, forecast in forecast_stream(model, sample_demand(), horizon=7, origins=20, rng=rng):
        gathered.add_forecast(forecast, one.y, scale=float(np.abs(np.diff(one.y)).mean()))  # type: ignore[arg-type]
    report = gathered.report()
    assert report.model == model.name
    assert report.count == 12 * 20
    assert 0.85 < report.coverage[report.levels.index(0.9)] < 0.98
    assert report.pit_distance < 0.15


@pytest.mark.parametrize(
    ("x", "y", "weights", "message"),
    [
        (np.zeros((2, 3)), np.zeros((2, 1)), None, r"members: saw shape \(2, 3\)"),
        (np.zeros((2, 3, 1)), np.zeros((3, 1)), None, r"y: saw shape \(3, 1\), expected shape \(2, 1\)"),
        (np.full((1, 2, 1), np.nan), np.zeros((1, 1)), None, r"members\[0, 0, 0\]: saw nan"),
        (np.zeros((1, 2, 1)), np.full((1, 1), np.inf), None, r"y\[0, 0\]: saw inf"),
        (np.zeros((1, 2, 1)), np.zeros((1, 1)), [1.0], r"weights: saw shape \(1,\)"),
        (np.zeros((1, 2, 1)), np.zeros((1, 1)), [2.0, -1.0], "weights: saw -1.0"),
    ],
)
def test_refused_inputs(x: np.ndarray, y: np.ndarray, weights: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        calibration_report(x, y, weights=weights)


def test_refused_settings() -> None:
    with pytest.raises(InputError, match=r"levels\[1\]: saw 1.0"):
        Calibration(2, levels=(0.5, 1.0))
    with pytest.raises(InputError, match="bins: saw 1"):
        Calibration(2, bins=1)
    with pytest.raises(InputError, match="calibration: saw no forecasts"):
        Calibration(2).report()
    with pytest.raises(InputError, match="scale: saw nan"):
        Calibration(1).add(np.zeros((1, 2, 1)), np.zeros((1, 1)), scale=math.nan)
