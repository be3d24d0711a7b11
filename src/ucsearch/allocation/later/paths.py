"""Limits at future steps: prices that enter every series' own policy, and paths on which the limits are kept.

The bound at the prices holds for every joint policy that sees no more than what has happened. The rule that is
simulated shares every step's limit by the values at these prices, as the released step does. What it falls short of
the bound by is, in expectation, a sum of terms of at least 0: at every step what single series lose at its prices, and
what is left of the limit at its price. Their mean over paths and a one-sided bound on that mean are reported.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.later.priced import Priced, Valued
from ucsearch.allocation.problem import Missing, Problem, Resource, group_label
from ucsearch.allocation.solve import choose_at
from ucsearch.engine.closed_loop.reachable import of_windows
from ucsearch.student import student_quantile

__all__ = ["CONFIDENCE", "Draws", "Later", "Limits", "StepUse", "beyond", "levels", "priced_horizon", "simulate"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Draws = Literal["independent", "common"]
CONFIDENCE = 0.975  # of the bound on the mean gap
ROUNDING = 1e-9  # share of a limit below which an expected use may exceed it by rounding alone
_SAMPLE = 1_000  # series on which prices are found first, where there are many
_ROUNDS = 80  # questions to a sample or a small problem
_LAST_ROUNDS = 6  # to all series, where there are many
_ENOUGH = 1e-5  # share of the bound's descent that is left when the search for prices ends
_CUTS = 80  # that are kept
_SERIOUS = 0.1  # share of the promised descent that makes a step count
_WEIGHTS = 400  # pairwise steps on the weights of the cuts
_EXACT = 1e-12  # of the weights' own gap


class Limits(NamedTuple):
    """One resource over the steps of the horizon."""

    name: str
    limits: Floats  # (G, H) units, inf where a step has none
    group: Ints  # (N,) -1: none applies
    groups: tuple[str, ...]  # (G,)

    def label(self, g: int) -> str:
        """ "volume", or "volume of truck 3"."""
        return group_label(self.name, self.groups[g])

    def total(self, rows: Floats) -> Floats:
        """(N, H) summed by group: (G, H)."""
        out = np.zeros(self.limits.shape)
        inside = self.group >= 0
        np.add.at(out, self.group[inside], rows[inside])
        return out

    def spread(self, prices: Floats) -> Floats:
        """(G, H) as every series pays it: (N, H)."""
        return np.where((self.group >= 0)[:, None], prices[np.maximum(self.group, 0)], 0.0)


class StepUse(NamedTuple):
    """One limit at one future step."""

    resource: str
    step: int  # 1: the step after the released one
    limit: float  # units
    mean: float  # units used, over the simulated paths
    most: float
    shadow_price: float  # currency per unit


@dataclass(frozen=True, eq=False)
class Later:
    """Prices of the steps after the first, and what simulated paths say about the rule that keeps their limits."""

    limits: tuple[Limits, ...]
    prices: tuple[Floats, ...]  # per resource (G, H); column 0 is not used: the first step has its own
    rent: float  # sum over later steps of price x limit
    free: float  # sum of the series' values as if nothing were limited at any step
    draws: Draws
    gaps: Floats  # (P,) each path's sum of losses and unused limits at the prices; inf where a limit could not be kept
    choices: Ints  # (P, H - 1, N) action index; -1 where a path ended
    uses: tuple[Floats, ...]  # per resource (P, G, H - 1) units, NaN where a path ended

    @property
    def kept(self) -> bool:
        """Whether every limit was kept on every path."""
        return bool(np.isfinite(self.gaps).all())

    @property
    def mean(self) -> float:
        """Currency by which the best joint policy could beat the simulated rule after the first step, on average."""
        return math.fsum(self.gaps.tolist()) / self.gaps.size if self.kept else math.inf

    @property
    def bound(self) -> float:
        """An upper confidence bound on it, one-sided at CONFIDENCE by Student's t."""
        return upper_bound(self.gaps.tolist()) if self.kept else math.inf

    def table(self) -> tuple[StepUse, ...]:
        out = []
        for limits, price, use in zip(self.limits, self.prices, self.uses, strict=True):
            for g in range(limits.limits.shape[0]):
                for h in range(1, limits.limits.shape[1]):
                    if np.isfinite(limits.limits[g, h]):
                        used = use[:, g, h - 1]
                        out.append(StepUse(
                            limits.label(g), h, float(limits.limits[g, h]), float(used.mean()), float(used.max()),
                            float(price[g, h]),
                        ))  # fmt: skip
        return tuple(out)


def upper_bound(gaps: Sequence[float]) -> float:
    """Mean plus Student's quantile times the standard error."""
    n = len(gaps)
    mean = math.fsum(gaps) / n
    spread = math.sqrt(math.fsum((x - mean) ** 2 for x in gaps) / (n - 1))
    return mean + student_quantile(CONFIDENCE, n - 1) * spread / math.sqrt(n)


# -------------------------------------------------------------------- prices


class _Bound:
    """The dual bound as a function of scaled prices of the limits there are."""

    def __init__(self, priced: Priced, limits: Sequence[Limits], scale: Sequence[Floats]) -> None:
        self.priced, self.limits, self.scale = priced, limits, scale
        self.there = [np.isfinite(x.limits) for x in limits]
        self.worth = np.cumprod([1.0, *[priced.discount] * (priced.graph.depth - 1)])

    def prices(self, x: Floats) -> list[Floats]:
        out, at = [], 0
        for there, scale in zip(self.there, self.scale, strict=True):
            price = np.zeros(there.shape)
            count = int(there.sum())
            price[there] = x[at : at + count] / scale[there]
            out.append(price)
            at += count
        return out

    def valued(self, prices: Sequence[Floats]) -> Valued:
        return self.priced.at(np.stack([x.spread(p) for x, p in zip(self.limits, prices, strict=True)]))

    def __call__(self, x: Floats) -> Cut:
        prices = self.prices(x)
        valued = self.valued(prices)
        bound, slope = float(valued.start.sum()), []
        for k, (limits, price, there) in enumerate(zip(self.limits, prices, self.there, strict=True)):
            room = np.where(there, limits.limits, 0.0)
            bound += float((price * room * self.worth).sum())
            slope.append(((room - limits.total(valued.mean[k])) * self.worth / self.scale[k])[there])
        return Cut(x, bound, np.concatenate(slope))


def priced_horizon(priced: Priced, limits: Sequence[Limits]) -> tuple[Valued, tuple[Floats, ...], Valued]:
    """Values without prices, good prices per resource (G, H), and values at them."""
    n = priced.graph.windows
    free = priced.at(np.zeros((len(limits), n, priced.graph.depth)))
    unlimited = [x.total(free.mean[k]) for k, x in enumerate(limits)]
    scale = []
    for x, want in zip(limits, unlimited, strict=True):
        size = np.maximum(want, np.where(np.isfinite(x.limits), x.limits, 0.0))
        scale.append(np.where(size > 0.0, size, 1.0))
    whole = _Bound(priced, limits, scale)
    stake = 0.01 * float(np.abs(free.start).sum()) or 1.0
    start = np.zeros(sum(int(t.sum()) for t in whole.there))
    rounds, many = _ROUNDS, n > 2 * _SAMPLE
    if many:
        rows = np.arange(0, n, n // _SAMPLE)
        sample, part = _sampled(priced, limits, free, unlimited, rows)
        # In a sample of so many series a unit of a limit is worth what it is worth in all.
        ratio = n / rows.size
        small = _Bound(sample, part, [s / ratio for s in scale])
        start = descend(small, start, _ROUNDS, _ENOUGH, stake / ratio).price * ratio
        stake, rounds = 0.01 * float(np.sqrt(start @ start)) or stake, _LAST_ROUNDS
    best = descend(whole, start, rounds, _ENOUGH, stake)
    prices = tuple(whole.prices(best.price))
    return free, prices, whole.valued(prices)


def beyond(priced: Priced, limits: Sequence[Limits]) -> tuple[Missing, ...]:
    """Later limits that no joint policy keeps: one that always holds would also hold on average."""
    missing, rates = [], []
    for x in limits:
        there = np.isfinite(x.limits)
        there[:, 0] = False
        rates.append(x.spread(np.where(there, 1.0 / np.where(there & (x.limits > 0.0), x.limits, 1.0), 0.0)))
    # A policy that spares all limits at once shows for most of them that they can be kept on average.
    spared = priced.frugal(np.stack(rates))
    for k, x in enumerate(limits):
        fine = x.total(spared[k]) <= x.limits
        for h in range(1, x.limits.shape[1]):
            if fine[:, h].all():
                continue
            least = priced.least(k, h)
            for g in range(x.limits.shape[0]):
                total, limit = math.fsum(least[x.group == g].tolist()), float(x.limits[g, h])
                if not total <= limit + ROUNDING * max(total, limit):
                    missing.append(Missing(f"{x.label(g)}, {h} {'step' if h == 1 else 'steps'} later", limit, total))
    return tuple(missing)


def _sampled(
    priced: Priced, limits: Sequence[Limits], free: Valued, unlimited: Sequence[Floats], rows: Ints
) -> tuple[Priced, list[Limits]]:
    """Some series, with limits in proportion to what they would use if nothing were limited."""
    use = np.concatenate(
        [priced.use[:, priced.graph.first[w, 1] : priced.graph.first[w + 1, 1]] for w in rows.tolist()], axis=1
    )
    sample = Priced(of_windows(priced.graph, rows), np.ascontiguousarray(use), priced.discount, priced.actions)
    part = []
    for k, x in enumerate(limits):
        small = x._replace(group=x.group[rows])
        share = small.total(free.mean[k][rows]) / np.where(unlimited[k] > 0.0, unlimited[k], 1.0)
        part.append(small._replace(limits=x.limits * np.where(unlimited[k] > 0.0, share, rows.size / x.group.size)))
    return sample, part


# -------------------------------------------------------------------- a proximal bundle method (Kiwiel 1990)

# Nothing here is trusted: any prices of at least 0 give a bound.


class Cut(NamedTuple):
    """The bound at some prices, and a slope there."""

    price: Floats  # (n,) scaled
    bound: float
    slope: Floats  # (n,)


def descend(ask: Callable[[Floats], Cut], start: Floats, rounds: int, enough: float, stake: float) -> Cut:
    """The best cut within `rounds` questions; earlier when at most a share `enough` of the bound's descent is left.
    `stake`: about how far prices may go at first, in their own scale."""
    best = first = ask(start)
    cuts = [best]
    reach = stake / max(float(np.sqrt(best.slope @ best.slope)), 1e-300)
    for _ in range(rounds):
        price, model = _proximal(cuts, best.price, reach)
        promised = best.bound - model
        if not promised > enough * max(first.bound - model, 1e-300) or not np.any(price != best.price):
            return best
        new = ask(price)
        cuts.append(new)
        if new.bound <= best.bound - _SERIOUS * promised:
            reach *= 4.0 if new.bound <= best.bound - 0.5 * promised else 1.0
            best = new
        else:
            reach *= 0.7
        if len(cuts) > _CUTS:
            cuts = [c for c in cuts if c is best] + cuts[-_CUTS + 1 :]
    return best


def _proximal(cuts: list[Cut], centre: Floats, reach: float) -> tuple[Floats, float]:
    """Prices of at least 0 that minimise the largest cut plus |price - centre|^2 / (2 reach), and that cut's height."""
    slopes = np.stack([c.slope for c in cuts])
    heights = np.array([c.bound - float(c.slope @ c.price) for c in cuts])
    share = np.zeros(len(cuts))
    share[int(np.argmax(heights + slopes @ centre))] = 1.0
    slope = share @ slopes
    for _ in range(_WEIGHTS):
        price = np.maximum(centre - reach * slope, 0.0)
        level = heights + slopes @ price
        up = int(np.argmax(level))
        down = int(np.argmin(np.where(share > 0.0, level, np.inf)))
        gap = level[up] - level[down]
        if not gap > _EXACT * max(abs(level[up]), abs(level[down]), 1e-300):
            break
        turn = slopes[up] - slopes[down]
        curve = reach * float(turn @ turn)
        step = share[down] if curve <= 0.0 else min(float(share[down]), gap / curve)
        share[up] += step
        share[down] -= step
        slope = share @ slopes
    price = np.maximum(centre - reach * slope, 0.0)
    return price, float((heights + slopes @ price).max())


# -------------------------------------------------------------------- paths


def levels(names: Sequence[str], path: int, steps: int, draws: Draws) -> Floats:
    """(H, N) numbers in [0, 1) that pick every series' outcome at every step of this path. They follow from the names
    of the series in their order, so that nobody can choose them."""
    joined = b"\0".join(name.encode() for name in (names if draws == "independent" else ()))
    count = len(names) if draws == "independent" else 1
    raw = hashlib.shake_256(b"ucsearch.paths.v1\0%d\0" % path + joined).digest(8 * steps * count)
    shares = (np.frombuffer(raw, ">u8").reshape(steps, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.ascontiguousarray(np.broadcast_to(shares, (steps, len(names))))


def simulate(
    priced: Priced, limits: tuple[Limits, ...], prices: tuple[Floats, ...], valued: Valued, free: Valued,
    names: Sequence[str], choice: Ints, paths: int, draws: Draws,
) -> Later:  # fmt: skip
    """Paths from the chosen first actions on, each step shared by the values at the prices."""
    n, depth = priced.graph.windows, priced.graph.depth
    root = np.zeros(n, np.int64)
    first = priced.step(valued.values, root)
    taken = np.take_along_axis(first.edge, choice[:, None], axis=1)[:, 0]
    worth = np.cumprod([1.0, *[priced.discount] * (depth - 1)])
    gaps = np.zeros(paths)
    choices = np.full((paths, depth - 1, n), -1, np.int64)
    uses = tuple(np.full((paths, x.limits.shape[0], depth - 1), np.nan) for x in limits)

    def follow(path: int) -> None:
        level = levels(names, path, depth - 1, draws)
        at, edge, terms = root, taken, []
        for h in range(1, depth):
            at = priced.follow(at, edge, level[h - 1])
            step = priced.step(valued.values, at)
            there = [k for k, x in enumerate(limits) if np.isfinite(x.limits[:, h]).any()]
            problem, price = _at_step(step.q, step.used, limits, prices, there, names, h)
            picked = choose_at(problem, price) if there else np.argmax(problem.floor, axis=1)
            if picked is None:
                terms = [math.inf]
                break
            terms.append(float(worth[h]) * _lost(problem, price, picked))
            choices[path, h - 1] = picked
            edge = np.take_along_axis(step.edge, picked[:, None], axis=1)[:, 0]
            for k, x in enumerate(limits):
                spent = np.take_along_axis(step.used[k], picked[:, None], axis=1)
                for g in range(x.limits.shape[0]):
                    uses[k][path, g, h - 1] = math.fsum(spent[x.group == g, 0].tolist())
        gaps[path] = math.fsum(terms)

    with ThreadPoolExecutor(max_workers=priced.threads) as pool:
        list(pool.map(follow, range(paths)))
    rent = math.fsum(
        float(worth[h] * price[g, h] * x.limits[g, h])
        for x, price in zip(limits, prices, strict=True)
        for g in range(x.limits.shape[0])
        for h in range(1, depth)
        if np.isfinite(x.limits[g, h])
    )
    return Later(limits, prices, rent, math.fsum(free.start.tolist()), draws, gaps, choices, uses)


def _at_step(
    q: Floats, used: Floats, limits: Sequence[Limits], prices: Sequence[Floats], there: list[int],
    names: Sequence[str], h: int,
) -> tuple[Problem, list[Floats]]:  # fmt: skip
    """One step as a problem of its own, with the limits that it has."""
    resources, price = [], []
    for k in there:
        x = limits[k]
        some = np.isfinite(x.limits[:, h])
        number = np.where(some, np.cumsum(some) - 1, -1)
        group = np.where(x.group >= 0, number[np.maximum(x.group, 0)], -1)
        labels = tuple(g for g, s in zip(x.groups, some, strict=True) if s)
        resources.append(Resource(x.name, used[k], x.limits[some, h], group, labels, ((),) * len(labels)))
        price.append(prices[k][some, h])
    nothing = np.zeros(len(q))  # no claim is made of one step alone
    return Problem(tuple(names), q, q, tuple(resources), nothing, nothing), price


def _lost(problem: Problem, prices: list[Floats], picked: Ints) -> float:
    """What single series lose at the prices, and what is left of the limits at the prices: at least 0 each."""
    charge = problem.charge(prices) if prices else np.zeros(problem.lower.shape)
    value = problem.floor - charge
    terms = (value.max(axis=1) - problem.picked(value, picked)).tolist()
    for r, price in zip(problem.resources, prices, strict=True):
        spent = problem.picked(r.use, picked)
        terms += [
            float(price[g]) * math.fsum((float(r.limits[g]), *(-spent[r.group == g]).tolist()))
            for g in range(r.limits.size)
        ]
    return math.fsum(terms)
