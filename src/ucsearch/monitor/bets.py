"""Bets against a calibrated forecaster, one outcome at a time.

An outcome's rank among J members leaves an interval [low, high] of the probability integral transform. If the forecast
is honest the outcome is one more draw, and the interval has the probability it is wide. Each bet is another law of the
outcome (wider, or shifted); it gains `1/2 + 1/2 * probability under it / probability under honesty`, which is 1 on
average while the forecast is honest. With a tolerance, honesty is a forecast whose spread is too narrow by that share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal, NamedTuple

from ucsearch.errors import InputError

__all__ = ["ADVICE", "BETS", "Bet", "Watch", "chosen_bets", "gains", "rank_of", "tolerance_of"]

Watch = Literal["both", "spread", "bias"]
_NORMAL = NormalDist()
_ROOT = math.sqrt(2.0)
_NOMINAL = 0.95  # the one-sided level at which undercoverage is stated
LEAST_MEMBERS = 50  # below this ranks are too coarse to see a misfit of the tolerated size


NARROW, TOO_LOW, TOO_HIGH = "spread too narrow", "forecasts too low", "forecasts too high"
# What to do about what a bet says.
ADVICE = {
    NARROW: "outcomes fall outside the forecast's range too often; recalibrate it or use a wider one",
    TOO_LOW: "outcomes are above the forecast too often; refit it, and look for what pushed them up",
    TOO_HIGH: "outcomes are below the forecast too often; refit it, and look for stock-outs",
}


class Bet(NamedTuple):
    """A law that the outcome may follow instead, on the scale where an honest forecast is standard normal."""

    shift: float
    scale: float
    weight: float

    @property
    def about(self) -> str:
        """What it would mean if this bet wins."""
        if self.shift == 0.0:
            return NARROW
        return TOO_LOW if self.shift > 0.0 else TOO_HIGH


BETS = (
    Bet(0.0, 1.15, 0.15),
    Bet(0.0, 1.3, 0.3),
    Bet(0.0, 1.6, 0.15),
    Bet(0.0, 2.2, 0.1),
    Bet(-1.0, 1.0, 0.05),
    Bet(1.0, 1.0, 0.05),
    Bet(-0.5, 1.0, 0.1),
    Bet(0.5, 1.0, 0.1),
)


def chosen_bets(watch: Watch) -> tuple[Bet, ...]:
    """The bets that are watched; their weights add up to 1."""
    if watch not in ("both", "spread", "bias"):
        raise InputError("watch", repr(watch), "'both', 'spread' or 'bias'")
    bets = [b for b in BETS if watch == "both" or (b.shift == 0.0) == (watch == "spread")]
    total = math.fsum(b.weight for b in bets)
    return tuple(b._replace(weight=b.weight / total) for b in bets)


def tolerance_of(undercoverage: float) -> float:
    """The share by which a spread may be too narrow, from the undercoverage that a gate tolerates."""
    if not 0.0 <= undercoverage < 2.0 * (_NOMINAL - 0.5):
        raise InputError("max_undercoverage", undercoverage, f"a number from 0 to {2.0 * (_NOMINAL - 0.5):g}")
    return _NORMAL.inv_cdf(_NOMINAL) / _NORMAL.inv_cdf(_NOMINAL - undercoverage / 2.0) - 1.0


def rank_of(members: Sequence[float], outcome: float, weights: Sequence[float] | None = None) -> tuple[float, float]:
    """The interval that the outcome leaves, counted as one more draw among the members."""
    size = len(members)
    if size == 0 or not math.isfinite(outcome):
        raise InputError("outcome", outcome, "a finite number, and at least one member")
    share_of_one = 1.0 / size
    if weights is None:
        less = sum(x < outcome for x in members) * share_of_one
        upto = sum(x <= outcome for x in members) * share_of_one
    else:
        less = math.fsum(w for x, w in zip(members, weights, strict=True) if x < outcome)
        upto = math.fsum(w for x, w in zip(members, weights, strict=True) if x <= outcome)
    return min(less / (1.0 + share_of_one), 1.0), min((upto + share_of_one) / (1.0 + share_of_one), 1.0)


def gains(low: float, high: float, tolerance: float, bets: Sequence[Bet]) -> tuple[float, ...]:
    """What each bet gains from one outcome; 1 is nothing."""
    if not 0.0 <= low < high <= 1.0:
        raise InputError("rank", (low, high), "an interval of probabilities with low below high")
    a, b = _place(low) / (1.0 + tolerance), _place(high) / (1.0 + tolerance)
    honest = _between(a, b)
    return tuple([0.5 + 0.5 * _between((a - g.shift) / g.scale, (b - g.shift) / g.scale) / honest for g in bets])


def _place(p: float) -> float:
    return -math.inf if p <= 0.0 else math.inf if p >= 1.0 else _NORMAL.inv_cdf(p)


def _between(a: float, b: float) -> float:
    """Normal probability of [a, b], from the tail that is smaller so that digits are kept."""
    if a >= 0.0:
        return 0.5 * (math.erfc(a / _ROOT) - math.erfc(b / _ROOT))
    if b <= 0.0:
        return 0.5 * (math.erfc(-b / _ROOT) - math.erfc(-a / _ROOT))
    return 1.0 - 0.5 * (math.erfc(-a / _ROOT) + math.erfc(b / _ROOT))
