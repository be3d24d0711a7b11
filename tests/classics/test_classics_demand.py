"""Demand distributions against scipy and against plain sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ucsearch.errors import InputError
from ucsearch.replay.classics.demand import Demand, geometric, poisson

SEVEN = [0.05, 0.15, 0.2, 0.0, 0.25, 0.15, 0.2]


@pytest.mark.parametrize("mean", [0.3, 1.0, 5.0, 47.5, 900.0])
def test_poisson_matches_scipy(mean: float) -> None:
    demand = poisson(mean)
    points = np.arange(demand.cut)
    np.testing.assert_allclose(demand.pmf[:-1], stats.poisson.pmf(points, mean), rtol=1e-11, atol=1e-300)
    assert demand.tail_mass == pytest.approx(stats.poisson.sf(demand.cut, mean), rel=1e-6)
    assert demand.tail_excess <= 1e-14 < mean


@pytest.mark.parametrize("mean", [0.2, 5.0, 30.0])
def test_geometric_matches_scipy(mean: float) -> None:
    demand = geometric(mean)
    points = np.arange(demand.cut)
    # scipy's geometric starts at 1.
    np.testing.assert_allclose(demand.pmf[:-1], stats.geom.pmf(points + 1, 1 / (1 + mean)), rtol=1e-11)
    assert demand.tail_mass == pytest.approx(stats.geom.sf(demand.cut + 1, 1 / (1 + mean)), rel=1e-9)
    assert demand.variance == pytest.approx(stats.geom.var(1 / (1 + mean)))


@pytest.mark.parametrize("demand", [poisson(5.0, tail=1e-3), geometric(5.0, tail=1e-3)], ids=["poisson", "geometric"])
def test_folded_tail_keeps_the_mass_and_reports_the_error(demand: Demand) -> None:
    assert math.fsum(demand.pmf) == pytest.approx(1.0, abs=1e-15)
    kept_mean = math.fsum(demand.pmf * np.arange(demand.pmf.size))
    # Folding moves every larger demand down to the cut: the mean falls by exactly the expected excess.
    assert demand.mean - kept_mean == pytest.approx(demand.tail_excess, rel=1e-9)
    assert 0.0 < demand.tail_excess <= 1e-3


@pytest.mark.parametrize("demand", [Demand.from_pmf(SEVEN), poisson(5.0), geometric(2.0)], ids=lambda d: d.name)
def test_shortage_and_leftover_are_the_plain_sums(demand: Demand) -> None:
    points = np.arange(demand.pmf.size)
    short, left = demand.expected_shortage(12), demand.expected_leftover(12)
    for y in range(13):
        assert short[y] == pytest.approx(math.fsum(demand.pmf * np.maximum(points - y, 0)), abs=1e-12)
        assert left[y] == pytest.approx(math.fsum(demand.pmf * np.maximum(y - points, 0)), abs=1e-12)


def test_sum_of_periods_is_the_convolution() -> None:
    total = Demand.from_pmf(SEVEN).over(3)
    expected = np.zeros(19)
    for a, pa in enumerate(SEVEN):
        for b, pb in enumerate(SEVEN):
            for c, pc in enumerate(SEVEN):
                expected[a + b + c] += pa * pb * pc
    np.testing.assert_allclose(total.pmf, expected, atol=1e-15)
    np.testing.assert_allclose(poisson(5.0).over(3).pmf[:40], stats.poisson.pmf(np.arange(40), 15.0), atol=1e-14)


def test_quantile_is_the_smallest_point_that_reaches_the_ratio() -> None:
    demand = Demand.from_pmf(SEVEN)
    cdf = np.cumsum(SEVEN)
    for ratio in (0.01, 0.05, 0.0501, 0.2, 0.4, 0.41, 0.8, 0.999):
        assert demand.quantile(ratio) == int(np.argmax(cdf >= ratio - 1e-12))
    assert poisson(25.0).quantile(0.8) == stats.poisson.ppf(0.8, 25.0)


@pytest.mark.parametrize(
    ("pmf", "message"),
    [
        ([0.5, math.nan, 0.5], "demand.pmf[1]: saw nan"),
        ([0.6, -0.1, 0.5], "demand.pmf[1]: saw -0.1"),
        ([0.5, 0.4], "demand.pmf: saw a sum of 0.9"),
        ([], "demand.pmf: saw shape (0,)"),
        ([[1.0]], "demand.pmf: saw shape (1, 1)"),
        (["a"], "demand.pmf: saw list"),
    ],
)
def test_bad_pmf_is_refused(pmf: list[object], message: str) -> None:
    with pytest.raises(InputError) as error:
        Demand.from_pmf(pmf)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("mean", [0.0, -1.0, math.nan, math.inf, "5", True])
@pytest.mark.parametrize("family", [poisson, geometric])
def test_bad_mean_is_refused(family: object, mean: object) -> None:
    with pytest.raises(InputError, match=r"demand\.mean"):
        family(mean)  # type: ignore[operator]


def test_pmf_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        poisson(5.0).pmf[0] = 1.0
