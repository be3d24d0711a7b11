"""The certificate's arithmetic (SPEC section 4), for all windows at once.

Every comparison is written so that NaN fails it, and by the tolerance of the two figures compared. Arrays are (W, m)
over first actions unless said otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.tolerance import CANCELLED, tolerance
from ucsearch.engine.status import First

__all__ = ["Claims", "Evidence", "action_set", "columns", "derive"]

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
    lower_size: Floats  # (W, m) sizes of the paths behind `lower`, `searched` and `upper` (see tolerance.py)
    searched_size: Floats
    upper_size: Floats
    reward_size: Floats  # (W, m) sizes of the paths behind `reward_lower` and `certain_lower`, NaN where none
    certain_size: Floats


class Claims(NamedTuple):
    """One row per window. NaN stands for "does not apply"; `sole` explains a missing gap."""

    tau: Floats  # of the two figures that `gap` compares
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
    cancellation: Bools  # the sums behind the score have eaten its digits


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


def derive(e: Evidence, eps_m: float, steps: int) -> Claims:
    """Every claim from the evidence; `steps` is how many are added up on a path. Nothing else enters."""
    count = e.selected.size
    blocks = [slice(lo, lo + _BLOCK) for lo in range(0, max(count, 1), _BLOCK)]
    same = e.certain_lower is e.reward_lower
    # inf - inf where nothing is known: NaN, which fails every comparison. So do all under an infinite tolerance.
    with np.errstate(invalid="ignore", over="ignore"):
        parts = [_derive(_part(e, block), eps_m, steps, same) for block in blocks]
    return parts[0] if len(parts) == 1 else Claims(*map(np.concatenate, zip(*parts, strict=True)))


def _part(e: Evidence, block: slice) -> Evidence:
    arrays: list[Any] = [array[block] for array in e]
    return Evidence(*arrays)


def _derive(e: Evidence, eps_m: float, steps: int, certain_is_reward_only: bool) -> Claims:
    rows = np.arange(e.selected.size)
    found = e.selected >= 0
    selected = np.maximum(e.selected, 0)
    inside = e.actions & _is_action(selected, e.actions.shape[1])
    found &= inside.any(axis=1)  # a selected action must itself be in A
    rivals = e.actions & ~inside
    # An unknown value counts as unbounded: nothing is proved by ignorance.
    upper = np.where(np.isnan(e.upper), np.inf, e.upper)
    sole = found & (e.actions.sum(axis=1) == 1)
    best_lower = np.where(found, e.lower[rows, selected], np.nan)
    best_size = np.where(found, e.lower_size[rows, selected], np.nan)
    versus = _Versus(best_lower[:, None] - upper, _tau(best_lower, upper, best_size, e.upper_size, steps), rivals)
    strongest = _largest(upper, rivals)
    gap = best_lower - strongest
    tied = rivals & (upper == strongest[:, None]) & np.isfinite(upper)
    tau = np.where(found & ~tied.any(axis=1), tolerance(best_lower, best_lower, best_size, best_size, steps), 0.0)
    tau = np.maximum(tau, np.max(np.where(tied, versus.tau, 0.0), axis=1, initial=0.0))
    optimal = found & (sole | versus.ahead(0.0, strictly=False))
    unique = found & (sole | versus.ahead(0.0))
    robust = found & (sole | versus.ahead(2.0 * eps_m))
    passed = optimal if eps_m == 0.0 else robust
    top = _largest(upper, e.actions)
    top_size = np.max(np.where(e.actions & (upper == top[:, None]), e.upper_size, 0.0), axis=1, initial=0.0)
    values = np.where(e.actions & e.exact[:, None], e.upper, np.nan)  # Q, where known
    retained = e.actions & ~np.isnan(e.lower)
    others = retained & ~inside
    margin = np.where(others.any(axis=1), best_lower - _largest(e.lower, others), np.nan)
    slack = np.where(others, np.maximum(0.0, values - e.lower), 0.0)
    eps_a = np.where(e.exact, np.max(slack, axis=1, initial=0.0), np.nan)
    maximal = top[:, None] - values <= _tau(top, values, top_size, e.upper_size, steps)
    oracle_retained = e.exact & (maximal & retained).any(axis=1)
    selected_maximal = found & maximal[rows, selected]
    paper_margin = np.where(sole, np.inf, margin)
    seen = _Seen(upper, np.where(e.exact, top, best_lower), np.where(e.exact, top_size, best_size), found)
    risk_gap, risk_active = _activity(e, seen, steps, e.reward_lower, e.reward_upper, e.reward_size)
    uncertainty_active = risk_active
    if not certain_is_reward_only:
        _, uncertainty_active = _activity(e, seen, steps, e.certain_lower, e.certain_upper, e.certain_size)
    reward_first = _argmax(e.reward_lower, e.actions)
    return Claims(
        tau=np.where(found, tau, 0.0),
        lead=np.where(sole, np.inf, np.where(found, versus.lead(), np.nan)),
        gap=np.where(found & ~sole, gap, np.nan),
        sole=sole,
        optimal=optimal,
        unique=unique,
        robust=robust,
        passed=passed,
        search_pass=_search_pass(e, eps_m, steps, upper),
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
        cancellation=found & (best_size > CANCELLED * np.abs(best_lower)),
    )


def _tau(x: Floats, values: Floats, size_x: Floats, sizes: Floats, steps: int) -> Floats:
    """(W, m) tolerance of one figure (W,) against each action's."""
    return tolerance(x[:, None], values, size_x[:, None], sizes, steps)


class _Versus(NamedTuple):
    """One score against the upper values of its rivals, each with the tolerance of that pair."""

    ahead_by: Floats  # (W, m)
    tau: Floats  # (W, m)
    rivals: Bools  # (W, m)

    def ahead(self, by: float, strictly: bool = True) -> Bools:
        """(W,) ahead of every rival by more than `by` and tau; not strictly: behind none by more than tau."""
        holds = self.ahead_by > by + self.tau if strictly else self.ahead_by >= by - self.tau
        # A tolerance without end says that nothing is known, not that everything is equal.
        return np.asarray((holds & (self.tau < np.inf) | ~self.rivals).all(axis=1))

    def lead(self) -> Floats:
        least: Floats = np.min(np.where(self.rivals, self.ahead_by - self.tau, np.inf), axis=1, initial=np.inf)
        return least


def _search_pass(e: Evidence, eps_m: float, steps: int, upper: Floats) -> Bools:
    """`certificate_pass` of what the search itself retained, before protection."""
    rows = np.arange(e.selected.size)
    selected = np.maximum(e.searched_selected, 0)
    inside = e.actions & _is_action(selected, e.actions.shape[1])
    found = (e.searched_selected >= 0) & inside.any(axis=1)
    best, size = e.searched[rows, selected], e.searched_size[rows, selected]
    versus = _Versus(best[:, None] - upper, _tau(best, upper, size, e.upper_size, steps), e.actions & ~inside)
    sole = e.actions.sum(axis=1) == 1
    holds = versus.ahead(0.0, strictly=False) if eps_m == 0.0 else versus.ahead(2.0 * eps_m)
    return np.asarray(found & (sole | holds))


class _Seen(NamedTuple):
    """What was derived on the way."""

    upper: Floats  # (W, m) unbounded where unknown
    figure: Floats  # (W,) what risk activity is measured from: the largest Q, or LB of the selected action
    figure_size: Floats  # (W,)
    found: Bools  # (W,)


def _activity(
    e: Evidence, seen: _Seen, steps: int, lower0: Floats, upper0: Floats, sizes0: Floats
) -> tuple[Floats, Bools]:
    """Whether every action that may be optimal at risk 0 is strictly worse here, and (kind oracle) by how much.

    A0 is taken as large as the evidence allows: every action whose value at risk 0 may reach the best known one.
    """
    best0 = _best_known(lower0, e.actions)
    size0 = np.max(np.where(e.actions & (lower0 == best0[:, None]), sizes0, 0.0), axis=1, initial=0.0)
    tau0 = _tau(best0, upper0, size0, np.fmax(np.abs(upper0), sizes0), steps)
    could_be_best0 = e.actions & ~(best0[:, None] - upper0 > tau0)  # an unknown value may be
    taus = _tau(seen.figure, seen.upper, seen.figure_size, e.upper_size, steps)
    versus = _Versus(seen.figure[:, None] - seen.upper, taus, could_be_best0)
    gap = seen.figure - _largest(seen.upper, could_be_best0)
    known = seen.found & could_be_best0.any(axis=1)
    return np.where(known, gap, np.nan), known & versus.ahead(0.0)


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
