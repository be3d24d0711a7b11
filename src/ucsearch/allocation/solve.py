"""A good allocation and good prices. Nothing here is trusted: `result` computes what is proved from what is found.

Prices: each in turn to the slope of the hull step at which its limit is reached (with one resource that is the end of
it). Allocation: the steps of every series' hull of (use, value), best value per use first, as far as they fit; with
several resources every series' best action at the prices, repaired by least loss per violated share. Then single moves
fill what is left, and with few series pairs of moves. Ties go to the smaller use, then to the series' order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.problem import Problem, Resource
from ucsearch.engine.cache import compiled

__all__ = [
    "Steps",
    "bound_at",
    "choose_at",
    "climb",
    "fill",
    "hull_steps",
    "least_use",
    "movable",
    "prices_near",
    "respond",
    "solve",
]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Prices = list[Floats]  # per resource (G,)
_SAMPLE = 4_000  # series on which prices are found first, where there are many
_SWEEPS = 60  # over the prices, on a sample or a small problem
_NEAR_SWEEPS = 4  # over the prices, from good ones
_LAST_SWEEPS = 3  # over the prices, on all series
_SETTLED = 1e-7  # relative change of the prices at which sweeps end
_ROUNDS = 200  # of repair, and of pairs of moves
_FILLS = 4  # times the nearest series are looked up while filling
_NEAR = 3_000  # of them at a time
_MOVES = 4_000  # single moves among them
_PAIRS = 3_000  # series x actions up to which pairs of moves are tried
_TIGHTER = (0.0, 1e-14, 1e-12, 1e-9)  # shares by which limits are drawn in where rounding broke one


class Steps(NamedTuple):
    """The steps of all series' upper hulls, by series in order of use: slopes fall within a series."""

    series: Ints  # (n,)
    before: Ints  # (n,) action the step leaves
    after: Ints  # (n,) action it leads to
    slope: Floats  # (n,) value per unit of use
    use: Floats  # (n,) use it adds


def hull_steps(values: Floats, use: Floats, start: Ints) -> Steps:
    """From `start`, always the next action with the largest gain per use; the smallest such step on ties."""
    most = values.shape[0] * max(values.shape[1] - 1, 1)
    whole = [np.empty(most, np.int64) for _ in range(3)]
    real = [np.empty(most) for _ in range(2)]
    count = climb(values, use, start, *whole, *real)
    return Steps(*(x[:count] for x in whole), *(x[:count] for x in real))


def solve(problem: Problem) -> tuple[Ints | None, tuple[Floats, ...]]:
    """A choice that keeps every limit, or None where none was found, and a price per resource and group."""
    lower, upper = problem.floor, problem.ceiling
    candidates = _prices(problem, upper)
    bounds = [_bound(problem, upper, prices) for prices in candidates]
    best = tuple(candidates[int(np.argmin(bounds))])
    return _best_choice(problem, lower, candidates), best


def choose_at(problem: Problem, prices: Prices) -> Ints | None:
    """A choice that keeps every limit, found from prices that are known already; None where none was found."""
    return _best_choice(problem, problem.floor, [prices], pairs=False)


def bound_at(problem: Problem, prices: Prices) -> float:
    """No allocation is worth more."""
    return _bound(problem, problem.ceiling, prices)


def prices_near(problem: Problem, prices: Prices) -> list[Prices]:
    """Better prices than those of a problem that differs a little."""
    return _descend(problem, problem.ceiling, prices, [r.left() for r in problem.resources], _NEAR_SWEEPS)[-1:]


def _best_choice(problem: Problem, lower: Floats, candidates: list[Prices], pairs: bool = True) -> Ints | None:
    best: Ints | None = None
    for tighter in _TIGHTER:
        limits = [np.where(left > 0.0, left * (1.0 - tighter), left) for left in (r.left() for r in problem.resources)]
        for prices in candidates:
            choice = _choose(problem, lower, prices, limits, pairs)
            if choice is None or not problem.fits(choice):
                continue
            if best is None or _value(problem, choice) > _value(problem, best):
                best = choice
        best = _frugal(problem, lower, candidates[-1], limits) if best is None else best
        if best is not None:
            break
    return best


def _frugal(problem: Problem, lower: Floats, prices: Prices, limits: list[Floats]) -> Ints | None:
    """Where no answer to prices could be repaired: from the smallest uses, of all limits together or of one of them."""
    shares = [
        r.use / np.where(c > 0.0, c, 1.0)[np.maximum(r.group, 0)][:, None]
        for r, c in zip(problem.resources, limits, strict=True)
    ]
    for use in (sum(shares, np.zeros(lower.shape)), *shares):
        choice = least_use(lower, use)
        slack = [c - _used(r, problem.picked(r.use, choice)) for r, c in zip(problem.resources, limits, strict=True)]
        if _repair(problem, lower, prices, choice, slack, limits):
            _fill(problem, lower, prices, choice, slack)
            if problem.fits(choice):
                return choice
    return None


def _value(problem: Problem, choice: Ints) -> float:
    return float(problem.picked(problem.lower, choice).sum())


# -------------------------------------------------------------------- prices


def _prices(problem: Problem, upper: Floats) -> list[Prices]:
    """The prices met on the last sweep over them; with many series it starts from the prices of a sample."""
    lefts = [r.left() for r in problem.resources]
    prices = [np.zeros(r.limits.size) for r in problem.resources]
    every = len(problem.series) // _SAMPLE
    if len(problem.resources) == 1:
        return _descend(problem, upper, prices, lefts, 1)
    if every < 2:
        return _descend(problem, upper, prices, lefts, _SWEEPS)
    some, part = _sample(problem, upper, lefts, every)
    start = _descend(some, upper[::every], prices, part, _SWEEPS)[-1]
    return _descend(problem, upper, start, lefts, _LAST_SWEEPS)


def _descend(problem: Problem, upper: Floats, prices: Prices, lefts: list[Floats], sweeps: int) -> list[Prices]:
    """Each price in turn to the least bound while the others stand."""
    met: list[Prices] = []
    for _ in range(sweeps):
        before, met = [p.copy() for p in prices], []
        for k, r in enumerate(problem.resources):
            rest = [np.zeros_like(p) if j == k else p for j, p in enumerate(prices)]
            alone = all(not p.any() for p in rest)
            values = upper if alone else upper - problem.charge(rest)
            prices = [*prices[:k], _price(values, r, lefts[k]), *prices[k + 1 :]]
            met.append(prices)
        if all(np.allclose(a, b, rtol=_SETTLED, atol=0.0) for a, b in zip(before, prices, strict=True)):
            break
    return met


def _price(values: Floats, r: Resource, left: Floats) -> Floats:
    """(G,) the slope of the hull step at which each limit is reached: the least dual bound in this price."""
    start = least_use(values, r.use)
    steps = hull_steps(values, r.use, start)
    base = _used(r, r.use[np.arange(start.size), start])
    price = np.zeros(left.size)
    for g, numbers in enumerate(_by_slope(steps, r)):
        total = base[g] + np.cumsum(steps.use[numbers])
        k = int(np.searchsorted(total, left[g], side="right"))
        price[g] = steps.slope[numbers[k]] if k < numbers.size else 0.0
    return price


def _by_slope(steps: Steps, r: Resource) -> list[Ints]:
    """Per group the numbers of its steps, steepest first, in the series' order on ties."""
    if r.limits.size == 1 and (r.group == 0).all():
        return [np.argsort(-steps.slope, kind="stable")]
    group = r.group[steps.series]
    order = np.lexsort((-steps.slope, group))
    bounds = np.searchsorted(group[order], np.arange(r.limits.size + 1))
    return [order[bounds[g] : bounds[g + 1]] for g in range(r.limits.size)]


def _sample(problem: Problem, upper: Floats, lefts: list[Floats], every: int) -> tuple[Problem, list[Floats]]:
    """Every so many series, with limits in proportion to what they would use if nothing were shared."""
    best = np.argmax(upper, axis=1)
    chosen, part = [], []
    for r, left in zip(problem.resources, lefts, strict=True):
        small = replace(r, use=r.use[::every], group=r.group[::every])
        whole = _used(r, problem.picked(r.use, best))
        share = _used(small, problem.picked(small.use, best[::every])) / np.where(whole > 0.0, whole, 1.0)
        chosen.append(small)
        part.append(left * np.where(whole > 0.0, share, 1.0 / every))
    rows = slice(None, None, every)
    sample = Problem(
        problem.series[rows], problem.lower[rows], problem.upper[rows], tuple(chosen),
        problem.sizes[rows], problem.eps[rows],
    )  # fmt: skip
    return sample, part


def _bound(problem: Problem, upper: Floats, prices: Prices) -> float:
    total = respond(upper, problem.uses, problem.rows(prices), np.empty(upper.shape[0], np.int64))
    return total + sum(float(p @ r.left()) for p, r in zip(prices, problem.resources, strict=True))


def _used(r: Resource, uses: Floats) -> Floats:
    weights = np.where(r.group >= 0, uses, 0.0)
    return np.bincount(np.maximum(r.group, 0), weights=weights, minlength=r.limits.size).astype(np.float64)


# -------------------------------------------------------------------- an allocation


def _choose(problem: Problem, lower: Floats, prices: Prices, limits: list[Floats], pairs: bool) -> Ints | None:
    if len(problem.resources) == 1:
        choice = _greedy(problem, lower, limits[0])
    else:
        choice = np.empty(lower.shape[0], np.int64)
        respond(lower, problem.uses, problem.rows(prices), choice)
    slack = [c - _used(r, problem.picked(r.use, choice)) for r, c in zip(problem.resources, limits, strict=True)]
    if not _repair(problem, lower, prices, choice, slack, limits):
        return None
    _fill(problem, lower, prices, choice, slack)
    if pairs and lower.size <= _PAIRS:
        _pairs(problem, lower, choice, slack)
    return choice


def _greedy(problem: Problem, lower: Floats, limit: Floats) -> Ints:
    """Steps by slope as far as they all fit, group by group."""
    r = problem.resources[0]
    choice = least_use(lower, r.use)
    free = r.group < 0
    choice[free] = np.argmax(lower[free], axis=1)
    steps = hull_steps(lower, r.use, choice)
    base = _used(r, problem.picked(r.use, choice))
    for g, numbers in enumerate(_by_slope(steps, r)):
        total = base[g] + np.cumsum(steps.use[numbers])
        taken = numbers[: int(np.searchsorted(total, limit[g], side="right"))]
        np.maximum.at(last := np.full(choice.size, -1, np.int64), steps.series[taken], taken)
        moved = last >= 0  # a series' last step is the one that counts
        choice[moved] = steps.after[last[moved]]
    return choice


def _extra(problem: Problem, choice: Ints, rows: Ints | slice) -> list[Floats]:
    """Per resource: use above the chosen action's; 0 for series outside its groups."""
    out = []
    for r in problem.resources:
        use = r.use[rows]
        more = use - use[np.arange(use.shape[0]), choice[rows]][:, None]
        out.append(np.where((r.group[rows] >= 0)[:, None], more, 0.0))
    return out


def _repair(
    problem: Problem, lower: Floats, prices: Prices, choice: Ints, slack: list[Floats], limits: list[Floats]
) -> bool:
    """Move to smaller uses, least loss per violated share first, until every limit is kept; whether it is."""
    if not any((s < 0.0).any() for s in slack):
        return True
    priced = lower - problem.charge(prices)
    for _ in range(_ROUNDS):
        over = [s < 0.0 for s in slack]
        if not any(o.any() for o in over):
            return True
        extra = _extra(problem, choice, slice(None))
        share, harm = np.zeros(priced.shape), np.zeros(priced.shape, bool)
        for r, e, o, s, c in zip(problem.resources, extra, over, slack, limits, strict=True):
            group = np.maximum(r.group, 0)
            scale = np.where(c > 0.0, c, 1.0)[group][:, None]
            share += np.where((o[group] & (r.group >= 0))[:, None], -e / scale, 0.0)
            harm |= (e > 0.0) & (e > np.maximum(s[group], 0.0)[:, None])
        loss = problem.picked(priced, choice)[:, None] - priced
        usable = (share > 0.0) & (priced > -np.inf) & ~harm
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(usable, np.maximum(loss, 0.0) / share, np.inf)
        best = np.argmin(ratio, axis=1)
        order = np.argsort(problem.picked(ratio, best), kind="stable")
        order = order[np.isfinite(ratio[order, best[order]])]
        if not order.size:
            return False
        take = _until_kept(problem, extra, slack, order, best)
        _move(problem, choice, slack, order[:take], best[order[:take]])
    return False


def _until_kept(problem: Problem, extra: list[Floats], slack: list[Floats], order: Ints, best: Ints) -> int:
    """How many moves, in order, until the first violated limit is kept; at least one."""
    count = order.size
    for r, e, s in zip(problem.resources, extra, slack, strict=True):
        for g in np.flatnonzero(s < 0.0).tolist():
            change = np.where(r.group[order] == g, e[order, best[order]], 0.0)
            done = np.flatnonzero(np.cumsum(change) <= s[g])
            if done.size:
                count = min(count, int(done[0]) + 1)
    return max(1, count)


def _move(problem: Problem, choice: Ints, slack: list[Floats], rows: Ints, after: Ints) -> None:
    for r, s in zip(problem.resources, slack, strict=True):
        inside = r.group[rows] >= 0
        change = np.where(inside, r.use[rows, after] - r.use[rows, choice[rows]], 0.0)
        s -= np.bincount(np.maximum(r.group[rows], 0), weights=change, minlength=s.size)
    choice[rows] = after


def _fill(problem: Problem, lower: Floats, prices: Prices, choice: Ints, slack: list[Floats]) -> None:
    """Single moves that gain and fit, among the series that lose least by moving at these prices."""
    group = np.stack([r.group for r in problem.resources])
    room = np.zeros((len(slack), max(s.size for s in slack)))
    for k, s in enumerate(slack):
        room[k, : s.size] = s
    paid, rate = problem.rows(prices), np.empty(choice.size)
    for _ in range(_FILLS):
        movable(lower, problem.uses, group, room, choice, paid, rate)
        rows = np.flatnonzero(~np.isnan(rate))
        if not rows.size:
            break
        if rows.size > _NEAR:
            rows = np.sort(rows[np.argsort(rate[rows], kind="stable")[:_NEAR]])
        chosen = choice[rows]
        fill(lower[rows], np.ascontiguousarray(problem.uses[:, rows]), group[:, rows], room, chosen, _MOVES)
        choice[rows] = chosen
    for k, s in enumerate(slack):
        s[:] = room[k, : s.size]


def _pairs(problem: Problem, lower: Floats, choice: Ints, slack: list[Floats]) -> None:
    """Two moves at once that gain and fit: what single moves cannot reach."""
    n, m = lower.shape
    series = np.repeat(np.arange(n), m)
    least = 1e-12 * float(np.abs(lower[lower > -np.inf]).max(initial=0.0))
    for _ in range(_ROUNDS):
        extra = [e.ravel() for e in _extra(problem, choice, slice(None))]
        gain = (lower - problem.picked(lower, choice)[:, None]).ravel()
        both = gain[:, None] + gain[None, :]
        usable = (series[:, None] < series[None, :]) & (both > least)
        for r, e, s in zip(problem.resources, extra, slack, strict=True):
            for g in range(s.size):
                extra_use = np.where(r.group[series] == g, e, 0.0)
                change = extra_use[:, None] + extra_use[None, :]
                usable &= (change <= s[g]) | (change <= 0.0)
        if not usable.any():
            return
        x, y = divmod(int(np.argmax(np.where(usable, both, 0.0))), n * m)
        _move(problem, choice, slack, np.array([x // m, y // m]), np.array([x % m, y % m]))


# -------------------------------------------------------------------- loops over all series, compiled


@compiled
def least_use(values: Floats, use: Floats) -> Ints:
    """(N,) the best of the actions that use least, the first on ties. `values` is -inf outside the action set."""
    choice = np.zeros(values.shape[0], np.int64)
    for i in range(values.shape[0]):
        least, best = np.inf, -np.inf
        for a in range(values.shape[1]):
            if not values[i, a] > -np.inf:
                continue
            if use[i, a] < least or (use[i, a] == least and values[i, a] > best):
                least, best, choice[i] = use[i, a], values[i, a], a
    return choice


@compiled
def climb(
    values: Floats, use: Floats, start: Ints, series: Ints, before: Ints, after: Ints, slope: Floats, more: Floats
) -> int:
    """Fill the steps of every series' upper hull from `start`, largest gain per use first, the smallest step on ties.
    `values` is -inf outside the action set. Returns their number, at most N (m - 1)."""
    count = 0
    for i in range(values.shape[0]):
        at = start[i]
        while True:
            best, to = 0.0, -1
            for a in range(values.shape[1]):
                extra = use[i, a] - use[i, at]
                gain = values[i, a] - values[i, at]
                if extra > 0.0 and gain > 0.0:
                    rate = gain / extra
                    if rate > best or (rate == best and to >= 0 and use[i, a] < use[i, to]):
                        best, to = rate, a
            if to < 0:
                break
            series[count], before[count], after[count] = i, at, to
            slope[count], more[count] = best, use[i, to] - use[i, at]
            count += 1
            at = to
    return count


@compiled
def respond(values: Floats, uses: Floats, price: Floats, choice: Ints) -> float:
    """Every series' best action at prices (K, N) of its uses (K, N, m), the smaller on ties; returns their total."""
    total = 0.0
    for i in range(values.shape[0]):
        best = -np.inf
        for a in range(values.shape[1]):
            value = values[i, a]
            for k in range(uses.shape[0]):
                value -= price[k, i] * uses[k, i, a]
            if value > best:
                best, choice[i] = value, a
        total += best
    return total


@compiled
def movable(lower: Floats, uses: Floats, group: Ints, room: Floats, choice: Ints, price: Floats, rate: Floats) -> None:
    """Fill `rate` (N,): the least loss at `price` (K, N) per change of what is paid, over a series' single moves that
    gain and fit `room` (K, G). NaN where no move does, infinite where none of them changes what is paid."""
    resources = uses.shape[0]
    for i in range(lower.shape[0]):
        rate[i], at = np.nan, choice[i]
        for a in range(lower.shape[1]):
            gain = lower[i, a] - lower[i, at]
            if not gain > 0.0:
                continue
            paid, before, fits = 0.0, 0.0, True
            for k in range(resources):
                extra = uses[k, i, a] - uses[k, i, at]
                if group[k, i] >= 0 and extra > 0.0 and not extra <= room[k, group[k, i]]:
                    fits = False
                    break
                paid += price[k, i] * uses[k, i, a]
                before += price[k, i] * uses[k, i, at]
            if fits:
                change = abs(paid - before)
                loss = (lower[i, at] - before) - (lower[i, a] - paid)
                each = loss / change if change > 0.0 else np.inf
                if not rate[i] <= each:
                    rate[i] = each


@compiled
def fill(lower: Floats, uses: Floats, group: Ints, slack: Floats, choice: Ints, most: int) -> None:
    """Single moves that gain and fit `slack` (K, G), one at a time: the largest gain per share of what is left of each
    resource (Toyoda 1975), the first such on ties. `uses` (K, N, m), `group` (K, N) with -1 where nothing is shared."""
    resources = uses.shape[0]
    for _ in range(most):
        best, row, to = 0.0, -1, -1
        for i in range(lower.shape[0]):
            for a in range(lower.shape[1]):
                gain = lower[i, a] - lower[i, choice[i]]
                if not gain > 0.0:
                    continue
                share, fits = 0.0, True
                for k in range(resources):
                    g = group[k, i]
                    if g < 0:
                        continue
                    extra = uses[k, i, a] - uses[k, i, choice[i]]
                    if extra > 0.0 and extra > slack[k, g]:
                        fits = False
                        break
                    if extra > 0.0:
                        share += extra / slack[k, g]
                if not fits:
                    continue
                rate = gain / share if share > 0.0 else np.inf
                if rate > best:
                    best, row, to = rate, i, a
        if row < 0:
            return
        for k in range(resources):
            if group[k, row] >= 0:
                slack[k, group[k, row]] -= uses[k, row, to] - uses[k, row, choice[row]]
        choice[row] = to
