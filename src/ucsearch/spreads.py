"""The spreads: one table that policies, the plain engine and the members bound read. A new spread is one more entry,
and its sums in `engine/kernels/common/spreads.py`.

A spread is taken of member returns (or of an edge's rewards) with weights that sum to 1. Engines hand over the first
value and the mean's distance from it, so that equal values have spread 0 exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["NUMBERS", "SPREADS", "Spread", "spread_of", "tail_mean"]

Values = Sequence[float]


@dataclass(frozen=True)
class Spread:
    """`plain(values, weights, first, shift, tail)` and where it may be asked for."""

    name: str
    number: int  # in settings, records and kernels
    plain: Callable[[Values, Values, float, float, float], float]
    modes: tuple[str, ...]  # in which a policy may ask for it
    most_risk: float  # in members mode: beyond it a plan that is better for every member can score worse
    has_bound: bool  # the reweighted perfect-information bound knows its weights


def tail_mean(values: Values, weights: Values, tail: float) -> float:
    """Mean of the worst `tail` share; shifted by the first value, so equal values give that value exactly.

    The threshold is the smallest value with at least that share at or below it. Sums run in the given order.
    """
    threshold = max(values)
    ranked = sorted(set(values))
    low, high = 0, len(ranked) - 1  # the share at or below a value never falls with the value
    while low < high:
        middle = (low + high) // 2
        mass = 0.0
        for w, x in zip(weights, values, strict=True):
            if x <= ranked[middle]:
                mass += w
        if mass >= tail:
            high = middle
        else:
            low = middle + 1
    threshold = ranked[high]
    first, total, below = values[0], 0.0, 0.0
    for w, x in zip(weights, values, strict=True):
        if x < threshold:
            total += w * (x - first)
            below += w
    return first + (total + (tail - below) * (threshold - first)) / tail


def _squares(values: Values, weights: Values, first: float, shift: float, below: bool) -> float:
    total = 0.0
    for w, x in zip(weights, values, strict=True):
        off = (x - first) - shift
        if not below or off < 0.0:
            total += w * off * off
    return total


def _variance(values: Values, weights: Values, first: float, shift: float, tail: float) -> float:
    return _squares(values, weights, first, shift, False)


def _std(values: Values, weights: Values, first: float, shift: float, tail: float) -> float:
    return math.sqrt(_squares(values, weights, first, shift, False))


def _downside(values: Values, weights: Values, first: float, shift: float, tail: float) -> float:
    return math.sqrt(_squares(values, weights, first, shift, True))


def _cvar(values: Values, weights: Values, first: float, shift: float, tail: float) -> float:
    """How far the mean of the worst share lies below the mean."""
    if not all(map(math.isfinite, values)):
        return math.nan
    return max(0.0, (first + shift) - tail_mean(values, weights, tail))


_EVERYWHERE = ("mean", "scores", "members")
_TABLE = (
    Spread("variance", 0, _variance, _EVERYWHERE, math.inf, True),
    Spread("std", 1, _std, _EVERYWHERE, math.inf, True),
    Spread("downside", 2, _downside, _EVERYWHERE, 1.0, True),
    Spread("cvar", 3, _cvar, ("members", "closed"), 1.0, True),
)
SPREADS = MappingProxyType({entry.name: entry for entry in _TABLE})
NUMBERS = MappingProxyType({entry.name: entry.number for entry in _TABLE})
_BY_NUMBER = {entry.number: entry for entry in _TABLE}


def spread_of(number: int) -> Spread:
    """The entry of a number; one that is not in the table is refused."""
    if number not in _BY_NUMBER:
        raise ValueError(f"no spread has the number {number!r}")
    return _BY_NUMBER[number]
