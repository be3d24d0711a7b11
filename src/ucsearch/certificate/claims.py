"""The certificate's arithmetic (docs/reference/record.md), for all windows at once.

Every comparison is written so that NaN fails it, and by the tolerance of the two figures compared. Arrays are (W, m)
over first actions unless said otherwise.

The tolerance says how far two scores must be apart to count as different, a small share of what was added up for the
two: `tau(x, y) = eps * max(size_x, size_y)` with `eps = max(1e-12, 2**-52 * d * (n + 2))`: d steps, n members or points
that are averaged. There is no absolute part and no part relative to the scores: scaling every reward by a power of two
scales every tolerance alike, and a cost that all plans share adds its own rounding and nothing more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Inputs
from ucsearch.policies import MODES, Settings
from ucsearch.spreads import NUMBERS

__all__ = [
    "BLOCK", "CANCELLED", "LEAST", "Claims", "Evidence", "bound_size", "derive", "path_size", "share", "shares",
    "tolerance",
]  # fmt: skip

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
BLOCK = 512  # windows handled at a time, so that what is computed on the way stays in the processor's cache
LEAST = 1e-12  # thousands of roundings
ROUNDING = 2.0**-52  # for every step and every number that is averaged
CANCELLED = 1e6  # a path whose size is so many times its score has lost six digits
_MEMBERS, _CLOSED = MODES["members"], MODES["closed"]
_STD, _VARIANCE, _DOWNSIDE = NUMBERS["std"], NUMBERS["variance"], NUMBERS["downside"]


class Evidence(NamedTuple):
    """What the searches found. `exact` says per window that `upper` holds exact values (kind oracle)."""

    actions: Bools  # (W, m) A: feasible first actions that stand for themselves and have a completion
    lower: Floats  # (W, m) LB = Qr, NaN where no path is retained
    lower_reward: Floats  # (W, m) R of that path
    lower_uncertainty: Floats  # (W, m) U of that path
    searched: Floats  # (W, m) Qr before any oracle suffix was inserted
    upper: Floats  # (W, m) Q or an admissible bound; NaN where nothing is known
    exact: Bools  # (W,)
    reward_lower: Floats  # (W, m) the same pair at risk 0
    reward_upper: Floats
    certain_lower: Floats  # (W, m) and for the certainty-equivalent planner
    certain_upper: Floats
    selected: Ints  # (W,) a_sel, -1 when no path was found
    searched_selected: Ints  # (W,) the same before protection
    lower_size: Floats  # (W, m) sizes of the paths behind `lower`, `searched` and `upper` (see tolerance.py)
    searched_size: Floats
    upper_size: Floats
    reward_size: Floats  # (W, m) sizes of the paths behind `reward_lower` and `certain_lower`, NaN where none
    certain_size: Floats
    share: Floats  # (W,) eps of the tolerance

    def of(self, windows: slice | Ints) -> Evidence:
        """The same of some windows."""
        arrays: list[Any] = [array[windows] for array in self]
        return Evidence(*arrays)


class Claims(NamedTuple):
    """One row per window. NaN stands for "does not apply"; `sole` explains a missing gap."""

    tau: Floats  # of the strongest rival and the proposed action, or of a rival that is not clearly behind, if more
    lead: Floats  # by how much the action is ahead of every rival beyond their tau; inf for a sole action
    gap: Floats
    sole: Bools
    optimal: Bools
    unique: Bools
    robust: Bools
    passed: Bools  # certificate_pass
    search_pass: Bools
    regret_bound: Floats
    exact_regret: Floats
    oracle_retained: Bools  # False also where Q is unknown
    margin: Floats
    eps_a: Floats
    proxy_slack: Floats
    paper_pass: Bools
    risk_gap: Floats
    risk_active: Bools
    search_active: Bools
    uncertainty_active: Bools
    cancellation: Bools  # terms of the score, or of one tied with it, cancel to less than 1e-6 of their size


def derive(e: Evidence, eps_m: float) -> Claims:
    """Every claim from the evidence. Nothing else enters."""
    count = e.selected.size
    blocks = [slice(lo, lo + BLOCK) for lo in range(0, max(count, 1), BLOCK)]
    same = e.certain_lower is e.reward_lower
    # inf - inf where nothing is known: NaN, which fails every comparison. So do all under an infinite tolerance.
    with np.errstate(invalid="ignore", over="ignore"):
        parts = [_derive(e.of(block), eps_m, same) for block in blocks]
    return parts[0] if len(parts) == 1 else Claims(*map(np.concatenate, zip(*parts, strict=True)))


def _derive(e: Evidence, eps_m: float, certain_is_reward_only: bool) -> Claims:
    rows = np.arange(e.selected.size)
    # An unknown value counts as unbounded: nothing is proved by ignorance.
    upper = np.where(np.isnan(e.upper), np.inf, e.upper)
    alone = np.add.reduce(e.actions, axis=1) == 1
    chosen = _chosen(e, e.selected, e.lower, e.lower_size, rows)
    searched = _chosen(e, e.searched_selected, e.searched, e.searched_size, rows)  # before protection
    found, rivals, index = chosen.found, chosen.rivals, chosen.at
    sole = found & alone
    best_lower = np.where(found, chosen.score, np.nan)
    best_size = np.where(found, chosen.size, np.nan)
    strongest, top = _largest(upper, rivals), _largest(upper, e.actions)
    top_size = _size_of(e.upper_size, e.actions & (upper == top[:, None]))
    # Four figures against every upper value, for all of them at once: a few windows cost what the calls cost.
    figures, sizes = np.empty((4, rows.size)), np.empty((4, rows.size))
    figures[_PUT], figures[_SEARCHED], figures[_TOP] = best_lower, searched.score, top
    sizes[_PUT], sizes[_SEARCHED], sizes[_TOP] = best_size, searched.size, top_size
    figures[_REFERENCE] = np.where(e.exact, top, best_lower)
    sizes[_REFERENCE] = np.where(e.exact, top_size, best_size)
    versus = _versus(figures, upper, sizes, e.upper_size, e.share)
    level, above = versus.level(), versus.above(0.0)
    further = above if eps_m == 0.0 else versus.above(2.0 * eps_m)
    gap = best_lower - strongest
    # With these pairs the gap is above tau exactly where every rival is clearly behind, and no rival can lie above the
    # score by more than regret_bound and tau.
    decisive = rivals & np.isfinite(upper) & ((upper == strongest[:, None]) | ~above[_PUT])
    tau = np.where(found & ~_any(decisive), tolerance(e.share, best_size, best_size), 0.0)
    tau = np.maximum(tau, _size_of(versus.tau[_PUT], decisive))
    least = CANCELLED * np.maximum(np.abs(best_lower)[:, None], np.abs(upper))
    hidden = decisive & level[_PUT] & ~above[_PUT] & (e.upper_size > least)
    optimal = found & (sole | _all(level[_PUT] | ~rivals))
    unique = found & (sole | _all(above[_PUT] | ~rivals))
    robust = unique if further is above else found & (sole | _all(further[_PUT] | ~rivals))
    passed = optimal if eps_m == 0.0 else robust
    search_ahead = (level if eps_m == 0.0 else further)[_SEARCHED]
    known = e.actions & e.exact[:, None]
    values = np.where(known, e.upper, np.nan)  # Q, where known
    retained = e.actions & ~np.isnan(e.lower)
    others = retained & ~chosen.inside
    margin = np.where(_any(others), best_lower - _largest(e.lower, others), np.nan)
    slack = np.where(others, np.maximum(0.0, values - e.lower), 0.0)
    eps_a = np.where(e.exact, np.maximum.reduce(slack, axis=1, initial=0.0), np.nan)
    maximal = known & (versus.by[_TOP] <= versus.tau[_TOP])
    oracle_retained = e.exact & _any(maximal & retained)
    selected_maximal = found & maximal[rows, index]
    paper_margin = np.where(sole, np.inf, margin)
    reference = _Reference(upper, figures[_REFERENCE], above[_REFERENCE], found)
    best0 = _best_known(e.reward_lower, e.actions)
    risk_gap, risk_active = _activity(e, reference, best0, e.reward_lower, e.reward_upper, e.reward_size)
    uncertainty_active = risk_active
    if not certain_is_reward_only:
        best = _best_known(e.certain_lower, e.actions)
        _, uncertainty_active = _activity(e, reference, best, e.certain_lower, e.certain_upper, e.certain_size)
    reward_first = _first_at(e.reward_lower, e.actions, best0)
    lead = np.minimum.reduce(np.where(rivals, versus.by[_PUT] - versus.tau[_PUT], np.inf), axis=1, initial=np.inf)
    exact_found = e.exact & found
    return Claims(
        tau=np.where(found, tau, 0.0),
        lead=np.where(sole, np.inf, np.where(found, lead, np.nan)),
        gap=np.where(found & ~sole, gap, np.nan),
        sole=sole,
        optimal=optimal,
        unique=unique,
        robust=robust,
        passed=passed,
        search_pass=searched.found & (alone | _all(search_ahead | ~searched.rivals)),
        regret_bound=np.where(sole, 0.0, np.where(found, np.maximum(0.0, -gap), np.inf)),
        exact_regret=np.where(exact_found, top - values[rows, index], np.nan),
        oracle_retained=oracle_retained,
        margin=np.where(found, margin, np.nan),
        eps_a=eps_a,
        proxy_slack=np.where(exact_found, top - best_lower, np.nan),
        paper_pass=oracle_retained & selected_maximal & (paper_margin > 2.0 * (eps_a + eps_m)),
        risk_gap=risk_gap,
        risk_active=passed & risk_active,
        search_active=found & (reward_first >= 0) & (reward_first != index),
        uncertainty_active=passed & uncertainty_active,
        cancellation=found & (best_size > CANCELLED * np.abs(best_lower)) | _any(hidden),
    )


# Figures that are compared with upper values: the proposed score, the searched one, the largest upper value, and
# what risk activity is measured from (the largest Q, or the proposed score).
_PUT, _SEARCHED, _TOP, _REFERENCE = range(4)


class _Chosen(NamedTuple):
    """One action of each window."""

    at: Ints  # (W,) its number, 0 where there is none
    inside: Bools  # (W, m) at the action, where it is in A
    rivals: Bools  # (W, m) the rest of A
    found: Bools  # (W,) a chosen action must itself be in A
    score: Floats  # (W,)
    size: Floats  # (W,)


def _chosen(e: Evidence, which: Ints, score: Floats, size: Floats, rows: Ints) -> _Chosen:
    index = np.maximum(which, 0)
    inside = e.actions & (np.arange(e.actions.shape[1])[:, None] == index).T
    return _Chosen(
        index, inside, e.actions & ~inside, (which >= 0) & _any(inside), score[rows, index], size[rows, index]
    )


class _Versus(NamedTuple):
    """Figures against upper values, each with the tolerance of that pair. A tolerance without end says that nothing is
    known, not that everything is equal."""

    by: Floats  # (figures, W, m) how far ahead
    tau: Floats

    def above(self, by: float) -> Bools:
        """Ahead by more than `by` and tau."""
        return np.asarray((self.by > by + self.tau) & (self.tau < np.inf))

    def level(self) -> Bools:
        """Not behind by more than tau."""
        return np.asarray((self.by >= -self.tau) & (self.tau < np.inf))


def _versus(figures: Floats, upper: Floats, sizes: Floats, upper_size: Floats, eps: Floats) -> _Versus:
    """Figures (n, W). Windows lie side by side in memory, as they come."""
    x, y = figures[:, None], upper.T
    tau = tolerance(eps, sizes[:, None], upper_size.T)
    return _Versus((x - y).transpose(0, 2, 1), tau.transpose(0, 2, 1))


class _Reference(NamedTuple):
    """What risk activity is measured by."""

    upper: Floats  # (W, m) unbounded where unknown
    figure: Floats  # (W,) what risk activity is measured from
    above: Bools  # (W, m) where it is above the upper value
    found: Bools  # (W,)


def _activity(
    e: Evidence, reference: _Reference, best0: Floats, lower0: Floats, upper0: Floats, sizes0: Floats
) -> tuple[Floats, Bools]:
    """Whether every action that may be optimal at risk 0 is strictly worse here, and (kind oracle) by how much.

    A0 is taken as large as the evidence allows: every action whose value at risk 0 may reach the best known one.
    """
    best = best0[:, None]
    size0 = _size_of(sizes0, e.actions & (lower0 == best))
    tau0 = tolerance(e.share[:, None], size0[:, None], np.fmax(np.abs(upper0), sizes0))
    could_be_best0 = e.actions & ~(best - upper0 > tau0)  # an unknown value may be
    gap = reference.figure - _largest(reference.upper, could_be_best0)
    known = reference.found & _any(could_be_best0)
    return np.where(known, gap, np.nan), known & _all(reference.above | ~could_be_best0)


def _any(holds: Bools) -> Bools:
    """Per window. The array's own method does the same, by way of Python."""
    any_holds: Bools = np.logical_or.reduce(holds, axis=1)
    return any_holds


def _all(holds: Bools) -> Bools:
    all_hold: Bools = np.logical_and.reduce(holds, axis=1)
    return all_hold


def _largest(values: Floats, where: Bools) -> Floats:
    """Per window, the largest value; -inf if there is none."""
    largest: Floats = np.maximum.reduce(np.where(where, values, -np.inf), axis=1, initial=-np.inf)
    return largest


def _size_of(sizes: Floats, where: Bools) -> Floats:
    """Per window, the largest size; 0 if there is none."""
    largest: Floats = np.maximum.reduce(np.where(where, sizes, 0.0), axis=1, initial=0.0)
    return largest


def _best_known(values: Floats, where: Bools) -> Floats:
    """Per window, the largest known value; -inf when none is."""
    return _largest(values, where & ~np.isnan(values))


def _first_at(values: Floats, where: Bools, best: Floats) -> Ints:
    """Per window, the first action whose value is the best known one; -1 when none is."""
    at = where & (values == best[:, None])
    return np.where(np.isfinite(best) & _any(at), np.argmax(at, axis=1), -1)


# -------------------------------------------------------------------- how far two scores must be apart


def share(steps: int, averaged: float) -> float:
    """eps where `steps` are added up and `averaged` members or points are averaged (1 where none)."""
    return max(LEAST, ROUNDING * steps * (max(averaged, 1) + 2))


def shares(settings: Settings, inputs: Inputs) -> Floats:
    """eps of every window, one for all where they share a forecast."""
    averaged = np.ones(1)  # members or points at most; 1 where there are none
    if settings.mode == _CLOSED:
        averaged = np.maximum.reduce(np.diff(inputs.u[:, 0], axis=1, prepend=0.0), axis=1, initial=1.0)
    elif settings.mode != MODES["scores"]:
        averaged[:] = max(1, inputs.members.shape[1])
    return np.maximum(LEAST, ROUNDING * settings.reach * (averaged + 2.0))


def tolerance(eps: Floats, size_x: Floats, size_y: Floats) -> Floats:
    """tau of every pair. An unknown size (NaN) does not count; a size beyond the largest float makes tau infinite."""
    tau: Floats = eps * np.fmax(np.fmax(size_x, size_y), 0.0)
    return tau


def path_size(gross: Floats, uncertainty: Floats, settings: Settings, risk: float) -> Floats:
    """The size of a path: everything that was added up for its score, in absolute terms.

    Mean and scores modes add up rewards and uncertainties. In closed mode the recursion has weighed the tail already.
    In members mode the spread is taken of the members' returns, so that their rounding enters it again: once (std),
    twice (downside, whose mean rounds as well), by 1 + 1/tail (cvar). A variance in money squared times a risk per
    money changes by twice the risk times the deviation for every unit by which a return changes.
    """
    if settings.mode == _CLOSED or not risk > 0.0:  # 0 times a sum beyond the largest float would be NaN
        return gross
    with np.errstate(over="ignore", invalid="ignore"):
        if settings.mode != _MEMBERS:
            return gross + risk * uncertainty
        if settings.spread == _VARIANCE:
            size: Floats = gross * (1.0 + 2.0 * risk * np.sqrt(uncertainty))
            return size
        times = 1.0 if settings.spread == _STD else 2.0 if settings.spread == _DOWNSIDE else 1.0 + 1.0 / settings.tail
        size = gross * (1.0 + risk * times)
    return size


def bound_size(upper: Floats, step_score: Floats) -> Floats:
    """The size of a bound without a path: its first step and its value to go, in absolute terms; never less than its
    own absolute value."""
    with np.errstate(over="ignore", invalid="ignore"):
        size: Floats = np.fmax(np.abs(step_score) + np.abs(upper - step_score), np.abs(upper))
    return size
