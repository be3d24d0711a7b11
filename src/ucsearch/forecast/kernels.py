"""Compiled parts of the forecasters: walk-forward ridge fits, residuals, and simulated paths.

P lags (rising, the first is 1), Q = P + 1 regressors (an intercept is separate), R residuals, J paths,
H steps, K columns that are known ahead. Every routine reads `y` only up to the index it is given. NaN in `y` is a
period that is not known: it joins no fit and no error, and where a lag needs it, what was forecast stands in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.forecast.streams import derive_stream, index_below, normal, uniform

__all__ = [
    "HEAD_SIZE", "add_row", "draw_coefficients", "draw_effects", "fill_row", "fit_effects", "fit_variance_head",
    "kept_residuals", "latin_paths", "level_form", "path_moments", "predict_variance", "ridge_ensemble",
    "ridge_paths", "solve", "stand_in", "without_known",
]  # fmt: skip

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A regressor whose centred square sum is below this share of its raw one is taken as constant.
CONSTANT = 1e-12
# Times that a known column must have been different before it is learned from: one promotion says little.
LEAST_SEEN = 3


@compiled
def without_known(value: float, known: Floats, effects: Floats, t: int) -> float:
    """The value of time t less the effects of its known columns."""
    for c in range(effects.size):
        value -= effects[c] * known[t, c]
    return value


@compiled
def fill_row(y: Floats, known: Floats, effects: Floats, t: int, lags: Ints, level: float, row: Floats) -> None:
    """Regressors and target for time t, both measured from the last value y[t-1], effects of known columns taken off.

    Measured like this, shrinking the coefficients leads to "same as last time" and not to a flat mean; the
    first regressor pulls towards the running mean `level` of y[:t], so that a stationary series can too.
    """
    last = without_known(y[t - 1], known, effects, t - 1)
    row[0] = level - last
    for i in range(1, lags.size):
        row[i] = without_known(y[t - lags[i]], known, effects, t - lags[i]) - last
    row[lags.size] = without_known(y[t], known, effects, t) - last


@compiled
def stand_in(row: Floats, slope: Floats, intercept: float, fitted: bool, last: float, mean: float) -> float:
    """What stands for a value that is not known: its forecast, or the mean so far until there is a fit."""
    if not fitted:
        return mean
    value = last + intercept
    for i in range(slope.size):
        value += slope[i] * row[i]
    return value


@compiled
def fit_effects(
    gram: Floats, chol: Floats, counts: Ints, known: Floats, t: int, error: float, ridge: float, discount: float,
    effects: Floats,
) -> None:  # fmt: skip
    """Learn from the error of time t what each known column adds: ridge regression of what was not forecast without
    them on how far they are from their first values. `counts`: how often each was elsewhere."""
    k = effects.size
    row = np.empty(k + 1)
    for c in range(k):
        row[c] = known[t, c] - known[0, c]
        error += effects[c] * row[c]
        if row[c] != 0.0:
            counts[c] += 1
    row[k] = error
    add_row(gram, row, 1.0, discount)
    solve(gram, ridge, 1.0, chol, effects)
    for c in range(k):
        if counts[c] < LEAST_SEEN:
            effects[c] = 0.0


@compiled
def draw_effects(
    gram: Floats, chol: Floats, counts: Ints, known: Floats, t: int, effects: Floats, noise: float, stream: np.uint64,
    out: Floats,
) -> None:  # fmt: skip
    """(H, J) what the known columns add after time t; with `noise` every path draws its own effects, as
    `draw_coefficients` does, of how far they are from their means."""
    steps, count = out.shape
    k = effects.size
    away = np.zeros(k)
    for j in range(count):
        sign = -1.0
        if j % 2 == 0:
            sign = 1.0
            if noise > 0.0 and gram[k + 1, k + 1] > 0.0:
                for c in range(k):
                    away[c] = noise * normal(stream, j * k + c)
                back_substitute(chol, away)
                for c in range(k):
                    if counts[c] < LEAST_SEEN:
                        away[c] = 0.0
        for h in range(steps):
            total = 0.0
            for c in range(k):
                x = known[t + 1 + h, c]
                total += effects[c] * x
                if away[c] != 0.0:
                    total += sign * away[c] * (x - known[0, c] - gram[k + 1, c] / gram[k + 1, k + 1])
            out[h, j] = total


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
    high: float, latin: bool, stream: np.uint64, order: Ints, added: Floats, paths: Floats,
) -> None:  # fmt: skip
    """Simulate J paths (H, J) from y[:n] with residuals drawn from the sorted `pool`; `added` (H, J), or nothing of
    size 0, is what known columns add to them.

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
        if added.size == 0:
            for j in range(count):
                row[j] = min(max(row[j], low), high)
        else:
            for j in range(count):
                row[j] = min(max(row[j] + added[h, j], low), high) - added[h, j]
    for h in range(added.shape[0]):
        for j in range(count):
            paths[h, j] = min(max(paths[h, j] + added[h, j], low), high)


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
    y: Floats, known: Floats, cutoffs: Ints, lags: Ints, ridge: float, pull: float, discount: float, keep: int,
    warmup: int, vary: bool, widen: float, floor: float, latin: bool, stream: np.uint64, members: Floats, mean: Floats,
    std: Floats,
) -> None:  # fmt: skip
    """Walk forward through y once; at each cutoff simulate members (O, J, H). Gaps in `y` are filled in place; `known`
    (n, K) has rows as far as the last cutoff's horizon."""
    count, steps = members.shape[1], members.shape[2]
    q, k = lags.size, known.shape[1]
    gram = np.zeros((q + 2, q + 2))
    chol = np.empty((q + 1, q + 1))
    row = np.empty(q + 1)
    slope = np.zeros(q)
    effects = np.zeros(k)
    effect_gram, effect_chol = np.zeros((k + 2, k + 2)), np.empty((k + 1, k + 1))
    counts = np.zeros(k, np.int64)
    seen_known = np.zeros(k)  # sums of the known columns where y is known
    phi = np.empty((q, count))
    const = np.empty(count)
    ring = np.zeros(keep)
    pool = np.empty(keep)
    order = np.empty(count, np.int64)
    added = np.empty((steps if k > 0 else 0, count))
    base = np.empty(y.size)
    paths = np.empty((steps, count))
    start = lags[q - 1]
    level, low, high = 0.0, y[0], y[0]
    n, gaps = 0, 0
    for t in range(start):
        if np.isnan(y[t]):
            y[t] = level / n
            gaps += 1
            continue
        level += y[t]
        n += 1
        low, high = min(low, y[t]), max(high, y[t])
        for c in range(k):
            seen_known[c] += known[t, c]
    for t in range(start, y.size):
        if np.isnan(y[t]):
            gaps += 1
    seen, done, rows = 0, 0, 0
    # Residuals older than the window of the first cutoff are never used, so their fits are skipped.
    first_fit = cutoffs[0] - keep - gaps
    for t in range(start, y.size):
        centre = level / n
        for c in range(k):
            centre -= effects[c] * seen_known[c] / n
        if np.isnan(y[t]):
            fill_row(y, known, effects, t, lags, centre, row)
            intercept = solve(gram, ridge, pull, chol, slope) if rows >= warmup else 0.0
            last = without_known(y[t - 1], known, effects, t - 1)
            value = stand_in(row, slope, intercept, rows >= warmup, last, centre)
            for c in range(k):
                value += effects[c] * known[t, c]
            y[t] = min(max(value, low), high)
        else:
            fill_row(y, known, effects, t, lags, centre, row)
            error, judged = 0.0, rows >= warmup and (t > first_fit or k > 0)
            if judged:
                error = row[q] - solve(gram, ridge, pull, chol, slope)
                for i in range(q):
                    error -= slope[i] * row[i]
                ring[seen % keep] = error
                seen += 1
            add_row(gram, row, 1.0, discount)
            rows += 1
            level += y[t]
            n += 1
            low, high = min(low, y[t]), max(high, y[t])
            for c in range(k):
                seen_known[c] += known[t, c]
            if judged and k > 0:
                fit_effects(
                    effect_gram, effect_chol, counts, known, t, error, ridge, discount, effects
                )  # fmt: skip
        if t == cutoffs[done]:
            intercept = solve(gram, ridge, pull, chol, slope)
            size = kept_residuals(ring, seen, pool)
            noise = 0.0
            if vary:
                for i in range(size):
                    noise += pool[i] * pool[i]
                noise = np.sqrt(noise / size)
            here = derive_stream(stream, t)
            centre = level / n
            for c in range(k):
                centre -= effects[c] * seen_known[c] / n
            draw_coefficients(gram, chol, slope, intercept, centre, noise, derive_stream(here, 0), phi, const)
            if k > 0:
                draw_effects(
                    effect_gram, effect_chol, counts, known, t, effects, noise, derive_stream(here, 2), added
                )  # fmt: skip
            for i in range(t + 1 - start, t + 1):
                base[i] = without_known(y[i], known, effects, i)
            room = widen * (high - low)
            latin_paths(
                base, t + 1, lags, phi, const, pool, size, max(low - room, floor), max(high + room, floor),
                latin, derive_stream(here, 1), order, added, paths,
            )  # fmt: skip
            path_moments(paths, members[done], mean[done], std[done])
            done += 1
            if done == cutoffs.size:
                break


MEMORY = 0.9  # of the running mean square of errors
HEAD_RIDGE = 10.0  # in observations
# Squared errors below this share of their mean count as that share: the logarithm of a lucky hit says little.
LEAST_SHARE = 1e-3
# Head: slopes on log volatility and log level, intercept, scale, lowest and highest log variance, offset of
# the level, smallest volatility.
HEAD_SIZE = 8


@compiled
def fit_variance_head(errors: Floats, volatility: Floats, levels: Floats, head: Floats) -> None:
    """Ridge regression of log squared errors (R,) on log volatility and log |level|, rescaled to mean 1.

    `volatility[i]` and `levels[i]` are known before `errors[i]`. All errors zero: a head that predicts 0.
    """
    count = errors.size
    square = 0.0
    for i in range(count):
        square += errors[i] * errors[i]
    square /= count
    head[:] = 0.0
    if not square > 0.0:
        return
    offset, least = np.sqrt(square), LEAST_SHARE * square
    gram = np.zeros((4, 4))
    chol = np.empty((3, 3))
    slope = np.zeros(2)
    row = np.empty(3)
    for i in range(count):
        row[0] = np.log(max(volatility[i], least))
        row[1] = np.log(abs(levels[i]) + offset)
        row[2] = np.log(max(errors[i] * errors[i], least))
        add_row(gram, row, 1.0, 1.0)
    intercept = solve(gram, HEAD_RIDGE, 1.0, chol, slope)
    low, high, ratio = np.inf, -np.inf, 0.0
    for i in range(count):
        fitted = intercept
        fitted += slope[0] * np.log(max(volatility[i], least))
        fitted += slope[1] * np.log(abs(levels[i]) + offset)
        low, high = min(low, fitted), max(high, fitted)
        ratio += errors[i] * errors[i] / np.exp(fitted)
    head[0], head[1], head[2], head[3] = slope[0], slope[1], intercept, ratio / count
    head[4], head[5], head[6], head[7] = low, high, offset, least


@compiled
def predict_variance(head: Floats, volatility: float, level: float) -> float:
    """Variance of the next error; never outside the range of the fit."""
    if not head[3] > 0.0:
        return 0.0
    fitted = head[2] + head[0] * np.log(max(volatility, head[7])) + head[1] * np.log(abs(level) + head[6])
    return float(head[3] * np.exp(min(max(fitted, head[4]), head[5])))


@compiled
def member_path(
    y: Floats, n: int, lags: Ints, phi: Floats, const: float, low: float, high: float, head: Floats,
    volatility: float, added: Floats, psi: Floats, path: Floats, spread: Floats,
) -> None:  # fmt: skip
    """A member's mean path (H,) and the standard deviation of the errors that add up along it; `added` (H,) is what
    known columns add."""
    steps = path.size
    cap = high - low
    for h in range(steps):
        value, response = const, 1.0 if h == 0 else 0.0
        for i in range(lags.size):
            back = h - lags[i]
            if back < 0:
                value += phi[i] * y[n + back]
            else:
                value += phi[i] * path[back]
                response += phi[i] * psi[back]
        outcome = min(max(value + added[h], low), high)
        path[h] = outcome - added[h]
        psi[h] = response
        # spread holds the one-step variances until the second loop.
        spread[h] = predict_variance(head, volatility, outcome)
    for h in range(steps - 1, -1, -1):
        total = 0.0
        for i in range(h + 1):
            total += psi[h - i] * psi[h - i] * spread[i]
        spread[h] = min(np.sqrt(total), cap)
    for h in range(steps):
        path[h] = min(max(path[h] + added[h], low), high)


@compiled
def ridge_ensemble(
    y: Floats, known: Floats, cutoffs: Ints, lags: Ints, ridge: float, pull: float, discount: float, keep: int,
    warmup: int, widen: float, floor: float, stream: np.uint64, members: Floats, member_std: Floats, mean: Floats,
    std: Floats,
) -> None:  # fmt: skip
    """Walk forward once, all members abreast; fills members and member_std (O, J, H), and gaps of `y` in place."""
    count, steps = members.shape[1], members.shape[2]
    q, k = lags.size, known.shape[1]
    effects = np.zeros(k)
    effect_gram, effect_chol = np.zeros((k + 2, k + 2)), np.empty((k + 1, k + 1))
    counts = np.zeros(k, np.int64)
    seen_known = np.zeros(k)  # sums of the known columns where y is known
    added = np.zeros(steps)
    base = np.empty(y.size)
    plain = np.zeros((q + 2, q + 2))
    grams = np.zeros((count, q + 2, q + 2))
    chol = np.empty((q + 1, q + 1))
    row = np.empty(q + 1)
    slope = np.zeros(q)
    phi = np.empty(q)
    psi = np.empty(steps)
    head = np.empty(HEAD_SIZE)
    rows = y.size
    errors, volatility, levels = np.empty(rows), np.empty(rows), np.empty(rows)
    weights = derive_stream(stream, 0)
    start = lags[q - 1]
    level, low, high = 0.0, y[0], y[0]
    n = 0
    for t in range(start):
        if np.isnan(y[t]):
            y[t] = level / n
            continue
        level += y[t]
        n += 1
        low, high = min(low, y[t]), max(high, y[t])
        for c in range(k):
            seen_known[c] += known[t, c]
    seen, done, fitted, running = 0, 0, 0, 0.0
    for t in range(start, rows):
        centre = level / n
        for c in range(k):
            centre -= effects[c] * seen_known[c] / n
        if np.isnan(y[t]):
            fill_row(y, known, effects, t, lags, centre, row)
            intercept = solve(plain, ridge, pull, chol, slope) if fitted >= warmup else 0.0
            last = without_known(y[t - 1], known, effects, t - 1)
            value = stand_in(row, slope, intercept, fitted >= warmup, last, centre)
            for c in range(k):
                value += effects[c] * known[t, c]
            y[t] = min(max(value, low), high)
        else:
            fill_row(y, known, effects, t, lags, centre, row)
            error = 0.0
            if fitted >= warmup:
                error = row[q] - solve(plain, ridge, pull, chol, slope)
                for i in range(q):
                    error -= slope[i] * row[i]
                if seen == 0:
                    running = error * error
                errors[seen], volatility[seen], levels[seen] = error, running, y[t] - error
                running = MEMORY * running + (1.0 - MEMORY) * error * error
                seen += 1
            add_row(plain, row, 1.0, discount)
            for j in range(count):
                add_row(grams[j], row, -np.log(uniform(weights, t * count + j)), discount)
            fitted += 1
            level += y[t]
            n += 1
            low, high = min(low, y[t]), max(high, y[t])
            for c in range(k):
                seen_known[c] += known[t, c]
            if fitted > warmup and k > 0:
                fit_effects(
                    effect_gram, effect_chol, counts, known, t, error, ridge, discount, effects
                )  # fmt: skip
        if t == cutoffs[done]:
            since = max(0, seen - keep)
            fit_variance_head(errors[since:seen], volatility[since:seen], levels[since:seen], head)
            room = widen * (high - low)
            bottom, top = max(low - room, floor), max(high + room, floor)
            centre = level / n
            for c in range(k):
                centre -= effects[c] * seen_known[c] / n
            for h in range(steps):
                added[h] = -without_known(0.0, known, effects, t + 1 + h) if k > 0 else 0.0
            for i in range(t + 1 - start, t + 1):
                base[i] = without_known(y[i], known, effects, i)
            for j in range(count):
                intercept = solve(grams[j], ridge, pull, chol, slope)
                const = level_form(slope, intercept, centre, phi)
                member_path(
                    base,
                    t + 1,
                    lags,
                    phi,
                    const,
                    bottom,
                    top,
                    head,
                    running,
                    added,
                    psi,
                    members[done, j],
                    member_std[done, j],
                )
            for h in range(steps):
                middle, square = 0.0, 0.0
                for j in range(count):
                    middle += members[done, j, h]
                middle /= count
                for j in range(count):
                    off = members[done, j, h] - middle
                    square += off * off + member_std[done, j, h] * member_std[done, j, h]
                mean[done, h] = middle
                std[done, h] = np.sqrt(square / count)
            done += 1
            if done == cutoffs.size:
                break
