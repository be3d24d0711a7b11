"""Compiled parts of the bootstrap ensemble: reweighted ridge fits and a residual-variance head.

Member j is fitted with its own random weights on the observations (Bayesian bootstrap, Rubin 1981): the
spread between members is what the data leave open about the model (epistemic). The head predicts the
variance of the next error from the recent size of errors and from the predicted level (aleatoric).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.cache import compiled
from ucsearch.forecast.kernels import add_row, fill_row, fit_effects, level_form, solve, stand_in, without_known
from ucsearch.forecast.streams import derive_stream, uniform

__all__ = ["HEAD_SIZE", "fit_variance_head", "predict_variance", "ridge_ensemble"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
