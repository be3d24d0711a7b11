"""Proposition 2 for one decision, measured: calibration of the retained paths, proxy slacks, regret and its bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ucsearch.certificate.claims import LEAST

__all__ = ["Retained", "Slacks", "beta_needed", "excess", "quantile", "slacks"]


class Retained(NamedTuple):
    """A retained path."""

    forecast: float  # Rhat, its reward under the forecast
    uncertainty: float  # U
    realised: float  # R, what the same actions earned in reality


class Slacks(NamedTuple):
    """The proposition's terms for one comparator path q and the best retained proxy for it."""

    eps_r: float
    eps_u: float
    eps_c: float
    regret: float  # R(q) - R(selected), may be negative
    bound: float  # on the regret
    size: float  # what was added up for the two, in absolute terms

    @property
    def left(self) -> float:
        """How far the regret stays below its bound."""
        return self.bound - self.regret

    @property
    def holds(self) -> bool:
        """Whether it does, to within rounding."""
        return self.left >= -LEAST * self.size


def beta_needed(paths: Sequence[Retained]) -> float:
    """The smallest beta with |Rhat - R| <= beta * U for all of them; infinite where a certain path missed."""
    found = 0.0
    for p in paths:
        missed = abs(p.forecast - p.realised)
        if missed > 0.0:
            found = max(found, missed / p.uncertainty if p.uncertainty > 0.0 else math.inf)
    return found


def excess(paths: Sequence[Retained], beta: float) -> float:
    """The largest calibration error beyond beta * U: eps_c of this decision."""
    return max(max(0.0, abs(p.forecast - p.realised) - beta * p.uncertainty) for p in paths)


def slacks(
    paths: Sequence[Retained],
    selected: int,
    realised: float,
    uncertainty: float,
    *,
    risk: float,
    beta: float,
    eps_c: float,
) -> Slacks:
    """Against the path q of reward `realised` in reality and this `uncertainty`. Any retained path may be the proxy;
    the one that gives the smallest bound is taken. The proposition needs beta <= risk and eps_c >= excess(paths, beta).
    """
    price = risk + beta

    def parts(p: Retained) -> tuple[float, float]:
        return max(0.0, realised - p.realised), max(0.0, p.uncertainty - uncertainty)

    eps_r, eps_u = min((parts(p) for p in paths), key=lambda e: (e[0] + price * e[1], e))
    bound = price * uncertainty + eps_r + price * eps_u + 2.0 * eps_c
    size = bound + abs(realised) + max(abs(p.realised) + abs(p.forecast) + price * p.uncertainty for p in paths)
    return Slacks(eps_r, eps_u, eps_c, realised - paths[selected].realised, bound, size)


def quantile(values: Sequence[float], level: float) -> float | None:
    """The smallest value that at least this share of them does not exceed; None of nothing."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(level * len(values) - 1e-9) - 1)]
