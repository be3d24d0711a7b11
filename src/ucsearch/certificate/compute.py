"""The certificate's arithmetic (SPEC section 4), for all windows at once.

Every comparison is written so that NaN fails it. Arrays are (W, m) over first actions unless said otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.status import First

__all__ = ["Claims", "Evidence", "derive", "tolerance"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


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


class Claims(NamedTuple):
    """One row per window. NaN stands for "does not apply"; `sole` explains a missing gap."""

    tau: Floats
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


def tolerance(*values: Floats) -> Floats:
    """tau = 1e-9 * (1 + max|S|) over the finite values given, per window."""
    largest = np.zeros(values[0].shape[0])
    for array in values:
        largest = np.maximum(largest, np.max(np.where(np.isfinite(array), np.abs(array), 0.0), axis=1, initial=0.0))
    return 1e-9 * (1.0 + largest)


def derive(e: Evidence, eps_m: float) -> Claims:
    """Every claim from the evidence; nothing else enters."""
    with np.errstate(invalid="ignore"):  # inf - inf where nothing is known: NaN, which fails every comparison
        return _derive(e, eps_m)


def _derive(e: Evidence, eps_m: float) -> Claims:
    rows = np.arange(e.selected.size)
    found = e.selected >= 0
    selected = np.maximum(e.selected, 0)
    inside = e.actions & (np.arange(e.actions.shape[1])[None] == selected[:, None])
    found &= inside.any(axis=1)  # a selected action must itself be in A
    rivals = e.actions & ~inside
    tau = tolerance(e.lower, np.where(e.actions, e.upper, np.nan))
    sole = found & (e.actions.sum(axis=1) == 1)
    best_lower = np.where(found, e.lower[rows, selected], np.nan)
    gap = best_lower - _largest(e.upper, rivals)
    optimal = found & (sole | (gap >= -tau))
    unique = found & (sole | (gap > tau))
    robust = found & (sole | (gap > 2.0 * eps_m + tau))
    passed = optimal if eps_m == 0.0 else robust
    top = _largest(e.upper, e.actions)
    values = np.where(e.actions & e.exact[:, None], e.upper, np.nan)  # Q, where known
    retained = e.actions & ~np.isnan(e.lower)
    others = retained & ~inside
    margin = np.where(others.any(axis=1), best_lower - _largest(e.lower, others), np.nan)
    slack = np.where(others, np.maximum(0.0, values - e.lower), 0.0)
    eps_a = np.where(e.exact, np.max(slack, axis=1, initial=0.0), np.nan)
    maximal = values >= (top - tau)[:, None]
    oracle_retained = e.exact & (maximal & retained).any(axis=1)
    selected_maximal = found & maximal[rows, selected]
    paper_margin = np.where(sole, np.inf, margin)
    risk_gap, risk_active = _activity(e, e.reward_lower, e.reward_upper, best_lower, values, tau, found)
    uncertainty_active = risk_active
    if e.certain_lower is not e.reward_lower:
        _, uncertainty_active = _activity(e, e.certain_lower, e.certain_upper, best_lower, values, tau, found)
    reward_first = _argmax(e.reward_lower, e.actions)
    return Claims(
        tau=tau,
        gap=np.where(found & ~sole, gap, np.nan),
        sole=sole,
        optimal=optimal,
        unique=unique,
        robust=robust,
        passed=passed,
        search_pass=_search_pass(e, eps_m, tau),
        regret_bound=np.where(sole, 0.0, np.where(found, np.maximum(0.0, -gap), np.inf)),
        exact_regret=np.where(e.exact & found, top - values[rows, selected], np.nan),
        oracle_retained=oracle_retained,
        margin=np.where(found, margin, np.nan),
        eps_a=eps_a,
        proxy_slack=np.where(e.exact & found, top - best_lower, np.nan),
        paper_pass=oracle_retained & selected_maximal & (paper_margin > 2.0 * (eps_a + eps_m)),
        risk_gap=risk_gap,
        risk_active=passed & risk_active,
        search_active=found & (reward_first >= 0) & (reward_first != selected),
        uncertainty_active=passed & uncertainty_active,
    )


def _search_pass(e: Evidence, eps_m: float, tau: Floats) -> Bools:
    """`certificate_pass` of what the search itself retained, before protection."""
    rows = np.arange(e.selected.size)
    selected = np.maximum(e.searched_selected, 0)
    inside = e.actions & (np.arange(e.actions.shape[1])[None] == selected[:, None])
    found = (e.searched_selected >= 0) & inside.any(axis=1)
    gap = e.searched[rows, selected] - _largest(e.upper, e.actions & ~inside)
    sole = e.actions.sum(axis=1) == 1
    passed: Bools = found & (sole | (gap >= -tau if eps_m == 0.0 else gap > 2.0 * eps_m + tau))
    return passed


def _activity(
    e: Evidence, lower0: Floats, upper0: Floats, best: Floats, values: Floats, tau: Floats, found: Bools
) -> tuple[Floats, Bools]:
    """Whether every action that may be optimal at risk 0 is strictly worse here, and (kind oracle) by how much.

    A0 is taken as large as the evidence allows: every action whose value at risk 0 may reach the best known one.
    """
    tau0 = tolerance(np.where(e.actions, lower0, np.nan), np.where(e.actions, upper0, np.nan))
    best0 = _best_known(lower0, e.actions)
    unknown = e.actions & np.isnan(upper0)
    could_be_best0 = e.actions & ((upper0 >= (best0 - tau0)[:, None]) | unknown)
    exact_gap = _largest(values, e.actions) - _largest(values, could_be_best0)
    bound_gap = best - _largest(e.upper, could_be_best0)
    gap = np.where(e.exact, exact_gap, bound_gap)
    known = found & could_be_best0.any(axis=1)
    return np.where(known, gap, np.nan), known & (gap > tau)


def _largest(values: Floats, where: Bools) -> Floats:
    """Per window, the largest value; -inf if none, +inf when one is unknown: nothing is proved by ignorance."""
    filled = np.where(where, np.where(np.isnan(values), np.inf, values), -np.inf)
    largest: Floats = np.max(filled, axis=1, initial=-np.inf)
    return largest


def _best_known(values: Floats, where: Bools) -> Floats:
    """Per window, the largest known value; -inf when none is."""
    best: Floats = np.max(np.where(where & ~np.isnan(values), values, -np.inf), axis=1, initial=-np.inf)
    return best


def _argmax(values: Floats, where: Bools) -> Ints:
    filled = np.where(where & ~np.isnan(values), values, -np.inf)
    best = np.argmax(filled, axis=1)
    return np.where(np.isfinite(filled[np.arange(best.size), best]), best, -1).astype(np.int64)


def action_set(flags: NDArray[np.uint8]) -> Bools:
    """Feasible, standing for itself, and not proved dead."""
    asked = First.FEASIBLE | First.DUPLICATE | First.DEAD
    return np.asarray(np.bitwise_and(flags, asked) == First.FEASIBLE, dtype=np.bool_)
