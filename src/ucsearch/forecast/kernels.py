"""Compiled parts of the forecasters: walk-forward ridge fits, residuals, and simulated paths.

P lags (rising, the first is 1), Q = P + 1 regressors (an intercept is separate), R residuals, J paths,
H steps. Every routine reads `y` only up to the index it is given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.forecast.streams import derive_stream, index_below, normal, uniform
from ucsearch.jit import compiled

__all__ = [
    "add_row",
    "draw_coefficients",
    "fill_row",
    "kept_residuals",
    "latin_paths",
    "level_form",
    "path_moments",
    "ridge_paths",
    "solve",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A regressor whose centred square sum is below this share of its raw one is taken as constant.
CONSTANT = 1e-12


@compiled
def fill_row(y: Floats, t: int, lags: Ints, level: float, row: Floats) -> None:
    """Regressors and target for time t, both measured from the last value y[t-1].

    Measured like this, shrinking the coefficients leads to "same as last time" and not to a flat mean; the
    first regressor pulls towards the running mean `level` of y[:t], so that a stationary series can too.
    """
    last = y[t - 1]
    row[0] = level - last
    for i in range(1, lags.size):
        row[i] = y[t - lags[i]] - last
    row[lags.size] = y[t] - last


@compiled
def add_row(gram: Floats, row: Floats, weight: float, discount: float) -> None:
    """gram <- discount * gram + weight * (row, 1)(row, 1)', lower triangle; `row` ends with the target."""
    size = row.size
    for i in range(size):
        scaled = weight * row[i]
        for j in range(i + 1):
            gram[i, j] = discount * gram[i, j] + scaled * row[j]
    for j in range(size):
        gram[size, j] = discount * gram[size, j] + weight * row[j]
    gram[size, size] = discount * gram[size, size] + weight


@compiled
def solve(gram: Floats, ridge: float, pull: float, chol: Floats, slope: Floats) -> float:
    """Ridge slopes from the sums in `gram`; returns the intercept, which is not shrunk.

    Minimises sum w (target - c - x.b)^2 + ridge * sum_j p_j var_j b_j^2 with p_0 = pull, else p_j = 1: each
    regressor is penalised in its own standard deviation, and `ridge` counts in observations. `chol` is
    left with the Cholesky factor (lower) of the penalised matrix; a regressor that is constant, or that the
    earlier ones determine, has an infinite pivot there and therefore slope 0 and no uncertainty.
    """
    q = slope.size
    total = gram[q + 1, q + 1]
    for i in range(q + 1):
        for j in range(i + 1):
            chol[i, j] = gram[i, j] - gram[q + 1, i] * gram[q + 1, j] / total
    for i in range(q):
        if not chol[i, i] > CONSTANT * gram[i, i]:
            for j in range(q + 1):
                chol[max(i, j), min(i, j)] = 0.0
            chol[i, i] = np.inf
        else:
            chol[i, i] *= 1.0 + (ridge * pull if i == 0 else ridge) / total
    for j in range(q):
        pivot = chol[j, j]
        least = CONSTANT * pivot
        for k in range(j):
            pivot -= chol[j, k] * chol[j, k]
        pivot = np.sqrt(pivot) if pivot > least else np.inf
        chol[j, j] = pivot
        for i in range(j + 1, q):
            cell = chol[i, j]
            for k in range(j):
                cell -= chol[i, k] * chol[j, k]
            chol[i, j] = cell / pivot
    for i in range(q):
        cell = chol[q, i]
        for k in range(i):
            cell -= chol[i, k] * slope[k]
        slope[i] = cell / chol[i, i]
    back_substitute(chol, slope)
    intercept = gram[q + 1, q]
    for i in range(q):
        intercept -= gram[q + 1, i] * slope[i]
    return float(intercept / total)


@compiled
def back_substitute(chol: Floats, x: Floats) -> None:
    """x <- L'^-1 x in place."""
    q = x.size
    for i in range(q - 1, -1, -1):
        cell = x[i]
        for k in range(i + 1, q):
            cell -= chol[k, i] * x[k]
        x[i] = cell / chol[i, i]


@compiled
def level_form(slope: Floats, intercept: float, level: float, phi: Floats) -> float:
    """The same model as y[t] = const + sum_i phi_i y[t - lag_i]; returns const."""
    phi[0] = 1.0
    for i in range(slope.size):
        phi[0] -= slope[i]
    for i in range(1, slope.size):
        phi[i] = slope[i]
    return float(intercept + slope[0] * level)


@compiled
def draw_coefficients(
    gram: Floats, chol: Floats, slope: Floats, intercept: float, level: float, noise: float,
    stream: np.uint64, phi: Floats, const: Floats,
) -> None:  # fmt: skip
    """Coefficients (P, J) and constants (J,) for J paths from the posterior of the ridge fit.

    Slopes are normal with covariance noise^2 (LL')^-1 (ridge as a Gaussian prior, Hoerl and Kennard 1970);
    neighbouring paths get opposite deviations, so that their mean stays the fitted model. With `noise` 0
    every path has the fitted model itself.
    """
    q, count = phi.shape
    total = gram[q + 1, q + 1]
    away = np.zeros(q)
    one = np.empty(q)
    drift = 0.0
    for j in range(count):
        sign = -1.0
        if j % 2 == 0:
            sign = 1.0
            if noise > 0.0:
                for i in range(q):
                    away[i] = noise * normal(stream, j * (q + 1) + i)
                back_substitute(chol, away)
                drift = noise * normal(stream, j * (q + 1) + q) / np.sqrt(total)
        shift = intercept + sign * drift
        for i in range(q):
            one[i] = slope[i] + sign * away[i]
            # The intercept is tied to the slopes through the means of the regressors.
            shift -= sign * away[i] * gram[q + 1, i] / total
        const[j] = shift + one[0] * level
        rest = 1.0
        for i in range(q):
            rest -= one[i]
            phi[i, j] = one[i]
        phi[0, j] = rest


@compiled
def kept_residuals(ring: Floats, count: int, out: Floats) -> int:
    """The last residuals from a ring buffer, sorted and centred; returns how many."""
    kept = min(count, ring.size)
    for i in range(kept):
        out[i] = ring[i]
    out[:kept].sort()
    mean = 0.0
    for i in range(kept):
        mean += out[i]
    mean /= kept
    for i in range(kept):
        out[i] -= mean
    return kept


@compiled
def latin_paths(
    y: Floats, n: int, lags: Ints, phi: Floats, const: Floats, pool: Floats, pool_size: int, low: float,
    high: float, latin: bool, stream: np.uint64, order: Ints, paths: Floats,
) -> None:  # fmt: skip
    """Simulate J paths (H, J) from y[:n] with residuals drawn from the sorted `pool`.

    With `latin`, path j takes its residual at each step from its own J-th part of the pool, the parts being
    dealt out anew at every step: each step sees the whole residual distribution once, and the paths' mean and
    spread carry far less sampling noise than J independent draws.
    """
    steps, count = paths.shape
    share = pool_size / count
    for h in range(steps):
        row = paths[h]
        for j in range(count):  # not `row[:] = const`, whose checks numba compiles for seconds
            row[j] = const[j]
        for i in range(lags.size):
            back = h - lags[i]
            weight = phi[i]
            if back < 0:
                known = y[n + back]
                for j in range(count):
                    row[j] += weight[j] * known
            else:
                earlier = paths[back]
                for j in range(count):
                    row[j] += weight[j] * earlier[j]
        base = h * 2 * count
        if latin:
            for j in range(count):
                order[j] = j
            for j in range(count - 1, 0, -1):
                other = index_below(stream, base + j, j + 1)
                order[j], order[other] = order[other], order[j]
            for j in range(count):
                at = int((order[j] + uniform(stream, base + count + j)) * share)
                row[j] += pool[min(at, pool_size - 1)]
        else:
            for j in range(count):
                row[j] += pool[index_below(stream, base + j, pool_size)]
        for j in range(count):
            row[j] = min(max(row[j], low), high)


@compiled
def path_moments(paths: Floats, members: Floats, mean: Floats, std: Floats) -> None:
    """Copy (H, J) paths into (J, H) members; mean and standard deviation per step."""
    steps, count = paths.shape
    for h in range(steps):
        total = 0.0
        for j in range(count):
            members[j, h] = paths[h, j]
            total += paths[h, j]
        centre = total / count
        square = 0.0
        for j in range(count):
            off = paths[h, j] - centre
            square += off * off
        mean[h] = centre
        std[h] = np.sqrt(square / count)


@compiled
def ridge_paths(
    y: Floats, cutoffs: Ints, lags: Ints, ridge: float, pull: float, discount: float, keep: int, warmup: int,
    vary: bool, widen: float, floor: float, latin: bool, stream: np.uint64, members: Floats, mean: Floats,
    std: Floats,
) -> None:  # fmt: skip
    """Walk forward through y once; at each cutoff simulate members (O, J, H)."""
    count, steps = members.shape[1], members.shape[2]
    q = lags.size
    gram = np.zeros((q + 2, q + 2))
    chol = np.empty((q + 1, q + 1))
    row = np.empty(q + 1)
    slope = np.zeros(q)
    phi = np.empty((q, count))
    const = np.empty(count)
    ring = np.zeros(keep)
    pool = np.empty(keep)
    order = np.empty(count, np.int64)
    paths = np.empty((steps, count))
    start = lags[q - 1]
    level, low, high = 0.0, y[0], y[0]
    for t in range(start):
        level += y[t]
        low, high = min(low, y[t]), max(high, y[t])
    seen, done = 0, 0
    # Residuals older than the window of the first cutoff are never used, so their fits are skipped.
    first_fit = cutoffs[0] - keep
    for t in range(start, y.size):
        fill_row(y, t, lags, level / t, row)
        if t - start >= warmup and t > first_fit:
            error = row[q] - solve(gram, ridge, pull, chol, slope)
            for i in range(q):
                error -= slope[i] * row[i]
            ring[seen % keep] = error
            seen += 1
        add_row(gram, row, 1.0, discount)
        level += y[t]
        low, high = min(low, y[t]), max(high, y[t])
        if t == cutoffs[done]:
            intercept = solve(gram, ridge, pull, chol, slope)
            size = kept_residuals(ring, seen, pool)
            noise = 0.0
            if vary:
                for i in range(size):
                    noise += pool[i] * pool[i]
                noise = np.sqrt(noise / size)
            here = derive_stream(stream, t)
            draw_coefficients(gram, chol, slope, intercept, level / (t + 1), noise, derive_stream(here, 0), phi, const)
            room = widen * (high - low)
            latin_paths(
                y, t + 1, lags, phi, const, pool, size, max(low - room, floor), max(high + room, floor),
                latin, derive_stream(here, 1), order, paths,
            )  # fmt: skip
            path_moments(paths, members[done], mean[done], std[done])
            done += 1
            if done == cutoffs.size:
                break
