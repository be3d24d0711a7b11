"""Spreads of member returns (or of an edge's rewards), as in ucsearch/spreads.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ucsearch.spreads import NUMBERS

VARIANCE, STD, DOWNSIDE, CVAR = (NUMBERS[name] for name in ("variance", "std", "downside", "cvar"))
Function = Callable[..., Any]


class Spreads(NamedTuple):
    one: Function  # (values, row, weights, wrow, spread) -> mean, spread
    several: Function  # the same of up to four rows at once
    all_finite: Function  # (mean, values, row) -> bool
    tail_mean: Function  # (values, row, n, weights, wrow, at, tail) -> mean of the worst share


def build(jit: Any) -> Spreads:
    @jit.lean
    def squares(values, row, weights, wrow, first, shift, below):
        """Weighted squares of values[row, :] around first + shift; `below`: of those below it."""
        total = 0.0
        for j in range(values.shape[1]):
            off = (values[row, j] - first) - shift
            if not below or off < 0.0:
                total += weights[wrow, j] * off * off
        return total

    @jit.lean
    def all_finite(mean, values, row):
        """Whether values[row, :] are, given their weighted mean: that is finite only if all of them are."""
        if math.isfinite(mean):
            return True
        for j in range(values.shape[1]):
            if not math.isfinite(values[row, j]):
                return False
        return True

    @jit.lean_call
    def tail_mean(values, row, n, weights, wrow, at, tail):
        """Mean of the worst `tail` share of values[row, 0:n] under weights[wrow, at:at + n]."""
        high = values[row, 0]
        for k in range(1, n):
            if values[row, k] > high:
                high = values[row, k]
        low = -np.inf
        while True:
            pivot = high
            for k in range(n):
                if values[row, k] > low and values[row, k] < high:
                    pivot = values[row, k]
                    break
            if not pivot < high:
                break
            mass = 0.0
            for k in range(n):
                if values[row, k] <= pivot:
                    mass += weights[wrow, at + k]
            if mass >= tail:
                high = pivot
            else:
                low = pivot
        first = values[row, 0]
        total = 0.0
        below = 0.0
        for k in range(n):
            if values[row, k] < high:
                total += weights[wrow, at + k] * (values[row, k] - first)
                below += weights[wrow, at + k]
        return first + (total + (tail - below) * (high - first)) / tail

    @jit.lean
    def one(values, row, weights, wrow, spread):
        """Mean and spread of values[row, :]; `spread` is (number, tail). An unknown number gives NaN, a fault."""
        first = values[row, 0]
        shift = 0.0
        for j in range(1, values.shape[1]):
            shift += weights[wrow, j] * (values[row, j] - first)
        if spread[0] == VARIANCE:
            return first + shift, squares(values, row, weights, wrow, first, shift, False)
        if spread[0] == STD:
            return first + shift, math.sqrt(squares(values, row, weights, wrow, first, shift, False))
        if spread[0] == DOWNSIDE:
            return first + shift, math.sqrt(squares(values, row, weights, wrow, first, shift, True))
        if spread[0] == CVAR:
            worst = tail_mean(values, row, values.shape[1], weights, wrow, 0, spread[1])
            return first + shift, max(0.0, (first + shift) - worst)
        return first + shift, np.nan

    @jit.lean
    def kind_of(square, spread):
        if spread[0] == VARIANCE:
            return square
        if spread[0] == STD or spread[0] == DOWNSIDE:
            return math.sqrt(square)
        return np.nan

    @jit.lean_call
    def several(values, begin, end, weights, wrow, spread, means, spreads):
        """`one` of the four rows begin..end at once: the same sums of each, side by side, because one addition waits
        for the one before. A row that is not there is the last."""
        last = end - begin - 1
        top = 0.0 if spread[0] == DOWNSIDE else np.inf  # of the distances that are counted; what is cut adds 0
        r0, r1, r2, r3 = 0, min(1, last), min(2, last), min(3, last)
        f0, f1, f2, f3 = values[r0, 0], values[r1, 0], values[r2, 0], values[r3, 0]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(1, values.shape[1]):
            weight = weights[wrow, j]
            s0 += weight * (values[r0, j] - f0)
            s1 += weight * (values[r1, j] - f1)
            s2 += weight * (values[r2, j] - f2)
            s3 += weight * (values[r3, j] - f3)
        q0 = q1 = q2 = q3 = 0.0
        for j in range(values.shape[1]):
            weight = weights[wrow, j]
            off0 = min(top, (values[r0, j] - f0) - s0)
            q0 += weight * off0 * off0
            off1 = min(top, (values[r1, j] - f1) - s1)
            q1 += weight * off1 * off1
            off2 = min(top, (values[r2, j] - f2) - s2)
            q2 += weight * off2 * off2
            off3 = min(top, (values[r3, j] - f3) - s3)
            q3 += weight * off3 * off3
        means[begin + r0], spreads[begin + r0] = f0 + s0, kind_of(q0, spread)
        means[begin + r1], spreads[begin + r1] = f1 + s1, kind_of(q1, spread)
        means[begin + r2], spreads[begin + r2] = f2 + s2, kind_of(q2, spread)
        means[begin + r3], spreads[begin + r3] = f3 + s3, kind_of(q3, spread)

    return Spreads(one, several, all_finite, tail_mean)
