"""The certificate's arithmetic (SPEC section 4), for all windows at once.

Every comparison is written so that NaN fails it. Arrays are (W, m) over first actions unless said otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.status import First

__all__ = ["Claims", "Evidence", "action_set", "columns", "derive", "tolerance"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
_BLOCK = 2048  # windows handled at a time, so that what is computed on the way stays in the processor's cache


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


def columns(table: Floats, *which: int) -> tuple[Floats, ...]:
    """Columns of (W, m, n), each (W, m) with the windows of an action side by side in memory: that way a few actions
    are reduced at full speed."""
    windows, m, _ = table.shape
    out = np.empty((len(which), m, windows))
    for lo in range(0, windows, _BLOCK):
        part = table[lo : lo + _BLOCK].T
        for k, column in enumerate(which):
            out[k, :, lo : lo + _BLOCK] = part[column]
    return tuple(values.T for values in out)


def _is_action(index: Ints, count: int) -> Bools:
    """(W, m) true at each window's own action."""
    return np.asarray((np.arange(count)[:, None] == index[None]).T)


def tolerance(*values: Floats) -> Floats:
    """tau = 1e-9 * (1 + max|S|) over the finite values given, per window."""
    largest = np.zeros(values[0].shape[0])
    for array in values:
        size = np.abs(array)
        largest = np.maximum(largest, np.max(np.where(size < np.inf, size, 0.0), axis=1, initial=0.0))
    return 1e-9 * (1.0 + largest)


def derive(e: Evidence, eps_m: float) -> Claims:
    """Every claim from the evidence; nothing else enters."""
    count = e.selected.size
    blocks = [slice(lo, lo + _BLOCK) for lo in range(0, max(count, 1), _BLOCK)]
    same = e.certain_lower is e.reward_lower
    with np.errstate(invalid="ignore"):  # inf - inf where nothing is known: NaN, which fails every comparison
        parts = [_derive(_part(e, block), eps_m, same) for block in blocks]
    return parts[0] if len(parts) == 1 else Claims(*map(np.concatenate, zip(*parts, strict=True)))


def _part(e: Evidence, block: slice) -> Evidence:
    arrays: list[Any] = [array[block] for array in e]
    return Evidence(*arrays)


def _derive(e: Evidence, eps_m: float, certain_is_reward_only: bool) -> Claims:
    rows = np.arange(e.selected.size)
    found = e.selected >= 0
    selected = np.maximum(e.selected, 0)
    inside = e.actions & _is_action(selected, e.actions.shape[1])
    found &= inside.any(axis=1)  # a selected action must itself be in A
    rivals = e.actions & ~inside
    # An unknown value counts as unbounded: nothing is proved by ignorance.
    upper = np.where(np.isnan(e.upper), np.inf, e.upper)
    tau = tolerance(e.lower, np.where(e.actions, e.upper, np.nan))
    sole = found & (e.actions.sum(axis=1) == 1)
    best_lower = np.where(found, e.lower[rows, selected], np.nan)
    gap = best_lower - _largest(upper, rivals)
    optimal = found & (sole | (gap >= -tau))
    unique = found & (sole | (gap > tau))
    robust = found & (sole | (gap > 2.0 * eps_m + tau))
    passed = optimal if eps_m == 0.0 else robust
    top = _largest(upper, e.actions)
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
    seen = _Seen(upper, best_lower, top, tau, found)
    risk_gap, risk_active = _activity(e, seen, e.reward_lower, e.reward_upper)
    uncertainty_active = risk_active
    if not certain_is_reward_only:
        _, uncertainty_active = _activity(e, seen, e.certain_lower, e.certain_upper)
    reward_first = _argmax(e.reward_lower, e.actions)
    return Claims(
        tau=tau,
        gap=np.where(found & ~sole, gap, np.nan),
        sole=sole,
        optimal=optimal,
        unique=unique,
        robust=robust,
        passed=passed,
        search_pass=_search_pass(e, eps_m, tau, upper),
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


def _search_pass(e: Evidence, eps_m: float, tau: Floats, upper: Floats) -> Bools:
    """`certificate_pass` of what the search itself retained, before protection."""
    rows = np.arange(e.selected.size)
    selected = np.maximum(e.searched_selected, 0)
    inside = e.actions & _is_action(selected, e.actions.shape[1])
    found = (e.searched_selected >= 0) & inside.any(axis=1)
    gap = e.searched[rows, selected] - _largest(upper, e.actions & ~inside)
    sole = e.actions.sum(axis=1) == 1
    passed: Bools = found & (sole | (gap >= -tau if eps_m == 0.0 else gap > 2.0 * eps_m + tau))
    return passed


class _Seen(NamedTuple):
    """What was derived on the way."""

    upper: Floats  # (W, m) unbounded where unknown
    best: Floats  # (W,) LB of the selected action
    top: Floats  # (W,) the largest upper value
    tau: Floats  # (W,)
    found: Bools  # (W,)


def _activity(e: Evidence, seen: _Seen, lower0: Floats, upper0: Floats) -> tuple[Floats, Bools]:
    """Whether every action that may be optimal at risk 0 is strictly worse here, and (kind oracle) by how much.

    A0 is taken as large as the evidence allows: every action whose value at risk 0 may reach the best known one.
    """
    tau0 = tolerance(np.where(e.actions, lower0, np.nan), np.where(e.actions, upper0, np.nan))
    best0 = _best_known(lower0, e.actions)
    could_be_best0 = e.actions & ~(upper0 < (best0 - tau0)[:, None])  # an unknown value may be
    gap = np.where(e.exact, seen.top, seen.best) - _largest(seen.upper, could_be_best0)
    known = seen.found & could_be_best0.any(axis=1)
    return np.where(known, gap, np.nan), known & (gap > seen.tau)


def _largest(values: Floats, where: Bools) -> Floats:
    """Per window, the largest value; -inf if there is none."""
    largest: Floats = np.max(np.where(where, values, -np.inf), axis=1, initial=-np.inf)
    return largest


def _best_known(values: Floats, where: Bools) -> Floats:
    """Per window, the largest known value; -inf when none is."""
    best: Floats = np.max(np.where(where & ~np.isnan(values), values, -np.inf), axis=1, initial=-np.inf)
    return best


def _argmax(values: Floats, where: Bools) -> Ints:
    """Per window, the first action with the largest known value; -1 when none is."""
    best = _best_known(values, where)
    index = np.full(best.size, -1)
    for i in range(values.shape[1] - 1, -1, -1):
        index = np.where(where[:, i] & (values[:, i] == best), i, index)
    return np.where(np.isfinite(best), index, -1)


def action_set(flags: NDArray[np.uint8]) -> Bools:
    """Feasible, standing for itself, and not proved dead."""
    asked = First.FEASIBLE | First.DUPLICATE | First.DEAD
    return np.asarray(np.bitwise_and(flags, asked) == First.FEASIBLE, dtype=np.bool_)
