"""The spreads: one table that policies, both engines and the members bound read. A new spread is one more entry.

A spread is taken of member returns (or of an edge's rewards) with weights that sum to 1. Engines hand over the first
value and the mean's distance from it, so that equal values have spread 0 exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["NUMBERS", "SPREADS", "Spread", "kernel_text", "spread_of", "tail_mean"]

Values = Sequence[float]


@dataclass(frozen=True)
class Spread:
    """`plain(values, weights, first, shift, tail)`, and the same as an expression of a kernel over values[row, :]."""

    name: str
    number: int  # in settings, records and kernels
    plain: Callable[[Values, Values, float, float, float], float]
    kernel: str  # of `square`, the weighted squares around the mean, if any
    squares: Literal["all", "below", ""]  # which those are: of all values, of those below the mean
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
    Spread("variance", 0, _variance, "square", "all", _EVERYWHERE, math.inf, True),
    Spread("std", 1, _std, "math.sqrt(square)", "all", _EVERYWHERE, math.inf, True),
    Spread("downside", 2, _downside, "math.sqrt(square)", "below", _EVERYWHERE, 1.0, True),
    Spread(
        "cvar", 3, _cvar,
        "max(0.0, (first + shift) - uc_tail(values, row, values.shape[1], weights, wrow, 0, spread[1]))", "",
        ("members", "closed"), 1.0, True,
    ),
)  # fmt: skip
SPREADS = MappingProxyType({entry.name: entry for entry in _TABLE})
NUMBERS = MappingProxyType({entry.name: entry.number for entry in _TABLE})
_BY_NUMBER = {entry.number: entry for entry in _TABLE}


def spread_of(number: int) -> Spread:
    """The entry of a number; one that is not in the table is refused."""
    if number not in _BY_NUMBER:
        raise ValueError(f"no spread has the number {number!r}")
    return _BY_NUMBER[number]


def kernel_text() -> str:
    """`uc_spread` and `uc_spreads` of a kernel; `spread` is (number, tail). An unknown number gives NaN, a fault."""
    cases = "".join(
        f"    if spread[0] == {entry.number}:\n"
        f"        square = {_SQUARES.format(entry.squares == 'below') if entry.squares else 0.0}\n"
        f"        return first + shift, {entry.kernel}\n"
        for entry in _TABLE
    )
    return f"LANES = {_LANES}\n\n\n" + _ONE.format(cases=cases) + _several()


_SQUARES = "uc_squares(values, row, weights, wrow, first, shift, {})"
_ONE = """\
@uc_lean
def uc_spread(values, row, weights, wrow, spread):
    first = values[row, 0]
    shift = 0.0
    for j in range(1, values.shape[1]):
        shift += weights[wrow, j] * (values[row, j] - first)
{cases}    return first + shift, np.nan
"""
_LANES = 4  # rows at once, in registers; one addition waits for the one before, so a row at a time is mostly waiting
_SEVERAL = """

@uc_lean_call
def uc_spreads(values, begin, end, weights, wrow, spread, means, spreads):
    # uc_spread of up to {lanes} rows, those of begin..end: the same sums of each. A row that is not there is the last.
    last = end - begin - 1
    top = 0.0 if {below} else np.inf  # of the distances that are counted; what is cut adds 0
{begin}
    for j in range(1, values.shape[1]):
        weight = weights[wrow, j]
{shifts}
    for j in range(values.shape[1]):
        weight = weights[wrow, j]
{squares}
{kinds}
{ends}
"""


def _several() -> str:
    known = [entry for entry in _TABLE if entry.squares]

    def lanes(text: str, indent: int) -> str:
        return "\n".join(" " * indent + line.replace("#", str(k)) for k in range(_LANES) for line in text.splitlines())

    return _SEVERAL.format(
        lanes=_LANES,
        below=" or ".join(f"spread[0] == {entry.number}" for entry in known if entry.squares == "below"),
        begin=lanes("row# = min(#, last)\nfirst# = values[row#, 0]\nshift# = 0.0\nsquare# = 0.0", 4),
        shifts=lanes("shift# += weight * (values[row#, j] - first#)", 8),
        squares=lanes("off# = min(top, (values[row#, j] - first#) - shift#)\nsquare# += weight * off# * off#", 8),
        kinds="\n".join(
            [lanes("kind# = np.nan", 4)]
            + [
                f"    if spread[0] == {entry.number}:\n"
                + lanes(f"kind# = {entry.kernel.replace('square', 'square#')}", 8)
                for entry in known
            ]
        ),
        ends=lanes("means[begin + row#] = first# + shift#\nspreads[begin + row#] = kind#", 4),
    )
