"""Demand of one period: a probability mass function on 0, 1, 2, … with its truncation error.

Long tails are cut where they no longer matter and folded into the last point, so the mass always sums to one.
What the cut may cost is kept beside the mass: `tail_mass` and `tail_excess`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError
from ucsearch.tasks.checks import finite_array, integer, positive, probability

__all__ = ["Demand", "geometric", "poisson"]

Floats = NDArray[np.float64]

_TAIL = 1e-14  # default bound on E[(D - cut)+], in units of demand
_TIE = 1e-12  # a distribution function this close below a fractile counts as having reached it
_MAX_POINTS = 1_000_000


@dataclass(frozen=True, eq=False)
class Demand:
    """Independent, identically distributed demand per period, `D`.

    Parameters
    ----------
    name :
        What it is called in tables.
    pmf :
        ``pmf[d] = P(D = d)``; the last point carries the folded tail. Normalised to sum to one.
    mean, variance :
        Exact moments, before truncation [``μ``, ``σ²``]. Taken from ``pmf`` when left out.
    tail_mass :
        ``P(D > cut)``, the mass that was moved to ``cut = len(pmf) - 1``.
    tail_excess :
        ``E[(D - cut)+]``: an expectation of a function with slope at most 1 is wrong by at most this much.

    Example
    -------
    >>> coin = Demand.from_pmf([0.5, 0.0, 0.5])
    >>> coin.mean, coin.quantile(0.5), coin.quantile(0.51)
    (1.0, 0, 2)
    """

    name: str  # for tables, such as "poisson(5)"
    pmf: Floats  # (n,) sums to 1
    mean: float  # units per period
    variance: float  # units squared
    tail_mass: float = 0.0  # probability
    tail_excess: float = 0.0  # units

    @classmethod
    def from_pmf(cls, pmf: ArrayLike, name: str = "custom") -> Demand:
        """Demand with the given mass on 0, 1, …, len(pmf) - 1; nothing is cut."""
        mass = finite_array(pmf, "demand.pmf")
        if mass.ndim != 1 or mass.size == 0:
            raise InputError("demand.pmf", f"shape {mass.shape}", "a non-empty list of probabilities")
        negative = np.flatnonzero(mass < 0.0)
        if negative.size:
            index = int(negative[0])
            raise InputError("demand.pmf", mass[index], "a probability of at least 0", index=index)
        total = math.fsum(mass)
        if not abs(total - 1.0) <= 1e-9:
            raise InputError("demand.pmf", f"a sum of {total!r}", "probabilities that sum to 1")
        mass = mass / total
        points = np.arange(mass.size, dtype=np.float64)
        mean = math.fsum(points * mass)
        variance = math.fsum((points - mean) ** 2 * mass)
        return cls._frozen(name, mass, mean, variance, 0.0, 0.0)

    @classmethod
    def _frozen(
        cls, name: str, mass: Floats, mean: float, variance: float, tail_mass: float, tail_excess: float
    ) -> Demand:
        mass = np.ascontiguousarray(mass, dtype=np.float64)
        mass.setflags(write=False)
        return cls(name, mass, mean, variance, tail_mass, tail_excess)

    @property
    def cut(self) -> int:
        """Largest demand kept; larger ones are folded into it."""
        return int(self.pmf.size) - 1

    @cached_property
    def cdf(self) -> Floats:
        """``P(D <= d)`` for d = 0..cut."""
        cdf = np.minimum(np.cumsum(self.pmf), 1.0)
        cdf[-1] = 1.0
        cdf.setflags(write=False)
        return cdf

    @cached_property
    def survival(self) -> Floats:
        """``P(D >= d)`` for d = 0..cut, summed from the small end, where ``1 - cdf`` would lose digits."""
        survival = np.cumsum(self.pmf[::-1])[::-1].copy()
        survival[0] = 1.0
        survival.setflags(write=False)
        return survival

    def quantile(self, ratio: float) -> int:
        """Smallest ``d`` with ``P(D <= d) >= ratio`` (a miss below 1e-12 counts as reached)."""
        ratio = probability(ratio, "ratio")
        return int(np.searchsorted(self.cdf, ratio - _TIE, side="left"))

    def expected_shortage(self, stock: int) -> Floats:
        """``E[(D - y)+]`` for y = 0..stock, from the exact mean: ``μ - Σ_{i=1..y} P(D >= i)``."""
        stock = integer(stock, "stock", at_least=0)
        reached = np.zeros(stock + 1)
        top = min(stock, self.cut)
        reached[1 : top + 1] = self.survival[1 : top + 1]
        return np.maximum(self.mean - np.cumsum(reached), 0.0)

    def expected_leftover(self, stock: int) -> Floats:
        """``E[(y - D)+] = y - μ + E[(D - y)+]`` for y = 0..stock."""
        levels = np.arange(integer(stock, "stock", at_least=0) + 1, dtype=np.float64)
        return np.maximum(levels - self.mean + self.expected_shortage(stock), 0.0)

    def over(self, periods: int) -> Demand:
        """Demand of `periods` periods together, by convolution."""
        periods = integer(periods, "periods", at_least=1)
        mass = self.pmf
        for _ in range(periods - 1):
            mass = np.convolve(mass, self.pmf)
        mass = np.maximum(mass, 0.0)
        return self._frozen(
            f"{self.name} x {periods}",
            mass / math.fsum(mass),
            periods * self.mean,
            periods * self.variance,
            min(1.0, periods * self.tail_mass),
            periods * self.tail_excess,
        )


def poisson(mean: float, *, tail: float = _TAIL) -> Demand:
    """Poisson demand, ``P(D = d) = μ^d e^{-μ} / d!``, cut where ``E[(D - cut)+] <= tail``.

    The mass grows by ratios from the mode, whose logarithm comes from ``lgamma``: no overflow for large
    means.

    Example
    -------
    >>> demand = poisson(5.0)
    >>> round(float(demand.pmf[5]), 6), demand.quantile(0.8), demand.tail_excess <= 1e-14
    (0.175467, 7, True)
    """
    mean = positive(mean, "demand.mean")
    tail = positive(tail, "demand.tail")
    mode = int(mean)
    mass = {mode: math.exp(mode * math.log(mean) - mean - math.lgamma(mode + 1.0))}
    for d in range(mode, 0, -1):
        mass[d - 1] = mass[d] * d / mean
    # Far enough that what is left out altogether is below the smallest double of interest.
    top = mode
    while mass[top] > 1e-40 or top < mean:
        if top >= _MAX_POINTS:
            raise InputError("demand.mean", mean, f"a mean that needs at most {_MAX_POINTS} points")
        mass[top + 1] = mass[top] * mean / (top + 1)
        top += 1
    full = np.array([mass[d] for d in range(top + 1)])
    return _fold(f"poisson({mean:g})", full, mean, mean, tail)


def geometric(mean: float, *, tail: float = _TAIL) -> Demand:
    """Geometric demand on 0, 1, …, ``P(D = d) = (1 - ρ) ρ^d`` with ``ρ = μ / (1 + μ)``, ``σ² = μ (1 + μ)``.

    ``P(D >= d) = ρ^d``, hence ``E[(D - cut)+] = μ ρ^cut`` exactly.

    Example
    -------
    >>> demand = geometric(5.0)
    >>> round(float(demand.pmf[0]), 6), demand.quantile(0.8), demand.variance
    (0.166667, 8, 30.0)
    """
    mean = positive(mean, "demand.mean")
    tail = positive(tail, "demand.tail")
    rho = mean / (1.0 + mean)
    cut = max(1, math.ceil(math.log(tail / mean) / math.log(rho)))
    if cut > _MAX_POINTS:
        raise InputError("demand.mean", mean, f"a mean that needs at most {_MAX_POINTS} points")
    powers = rho ** np.arange(cut + 1, dtype=np.float64)
    mass = powers * (1.0 - rho)
    mass[cut] = powers[cut]
    mass /= math.fsum(mass)
    return Demand._frozen(
        f"geometric({mean:g})",
        mass,
        mean,
        mean * (1.0 + mean),
        float(powers[cut] * rho),
        float(mean * powers[cut]),
    )


def _fold(name: str, full: Floats, mean: float, variance: float, tail: float) -> Demand:
    """Cut `full` where the expected excess falls to `tail` and move the rest into the last point."""
    above = np.cumsum(full[::-1])[::-1]  # P(D >= d)
    excess = np.append(np.cumsum(above[::-1])[::-1][1:], 0.0)  # E[(D - d)+] = sum of P(D >= i) over i > d
    cut = int(np.argmax(excess <= tail))
    mass = full[: cut + 1].copy()
    mass[cut] = above[cut]
    mass /= math.fsum(mass)
    tail_mass = float(above[cut + 1]) if cut + 1 < above.size else 0.0
    return Demand._frozen(name, mass, mean, variance, tail_mass, float(excess[cut]))
