"""What the searches of a proof say about every first action, put together for all windows at once.

Arrays are (W, m) over first actions unless said otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.proofs import Proofs, Suffixes, suffixes_of
from ucsearch.certificate.route import Route, choose
from ucsearch.certificate.tolerance import bound_size, path_size, shares, tolerance
from ucsearch.engine.arrays import Col, OutI
from ucsearch.engine.panel import PanelPlan
from ucsearch.engine.status import First, Status
from ucsearch.policies import ConstrainedBeam

__all__ = ["BLOCK", "Evidence", "Found", "action_set", "gather"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
BLOCK = 512  # windows handled at a time, so that what is computed on the way stays in the processor's cache
_PATH = [int(c) for c in (Col.SCORE, Col.REWARD, Col.UNCERTAINTY, Col.GROSS)]  # what describes a path, in this order
_PROVED = int(Status.PROVED)  # a plain number: with an enum NumPy takes several times as long


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


class Found(NamedTuple):
    """The evidence, and the paths behind it."""

    evidence: Evidence
    route: Route | None  # only for a constrained beam
    paths: NDArray[np.int32]  # (W, m, d) the retained path of each first action, -1 where none
    upper_paths: NDArray[np.int32]  # (W, m, d) the path whose score is the exact value, -1 where there is only a bound


def gather(proofs: Proofs) -> Found:
    """Lower and upper values of every first action, from the search and its proofs."""
    plan, proven = proofs.plan, proofs.proven
    settings, put_in = plan.settings, suffixes_of(plan.policy)
    flags = plan.outputs.flags | (proven.outputs.flags & First.DEAD)
    in_a = action_set(flags.astype(np.uint8, order="F")) & (proofs.upper != -np.inf)
    eps = np.resize(shares(settings, plan.inputs), len(plan))
    # At risk 0 the size of a path is its gross.
    reward_lower, reward_size = _columns(proofs.reward_only.outputs.table, Col.SCORE, Col.GROSS)
    certain_lower, certain_upper, certain_size = reward_lower, proofs.reward_upper, reward_size
    if proofs.certain is not proofs.reward_only:
        certain_lower, certain_upper, certain_size = _columns(
            proofs.certain.outputs.table, Col.SCORE, Col.UPPER, Col.GROSS
        )
    if any(put_in):
        values, paths = _with_suffixes(proofs, in_a, put_in)
        selected = _select(values, in_a)
    else:
        values, selected = plan.outputs.table[:, :, _PATH], plan.outputs.out_i[:, OutI.FIRST]
        paths = plan.outputs.paths[:, : in_a.shape[1]]  # closed mode has more, which start with the same action
    score, reward, uncertainty, gross = _columns(values, 0, 1, 2, 3)
    size = path_size(gross, uncertainty, settings, settings.risk)
    searched, searched_size = score, size
    if any(put_in):
        searched, own_uncertainty, own_gross = _columns(plan.outputs.table, Col.SCORE, Col.UNCERTAINTY, Col.GROSS)
        searched_size = path_size(own_gross, own_uncertainty, settings, settings.risk)
    by_path = (proven.outputs.flags & First.EXACT) != 0
    proof_uncertainty, proof_gross = _columns(proven.outputs.table, Col.UNCERTAINTY, Col.GROSS)
    lower = np.where(in_a, score, np.nan)
    step_reward, step_uncertainty = _columns(plan.outputs.table, Col.STEP_REWARD, Col.STEP_UNCERTAINTY)
    upper_size = np.where(
        by_path,
        path_size(proof_gross, proof_uncertainty, settings, settings.risk),
        bound_size(proofs.upper, step_reward - settings.risk * step_uncertainty),
    )
    upper, upper_size, sound = _reconciled(lower, size, proofs.upper, upper_size, eps[:, None])
    evidence = Evidence(
        actions=in_a,
        lower=lower,
        lower_reward=np.where(in_a, reward, np.nan),
        lower_uncertainty=np.where(in_a, uncertainty, np.nan),
        searched=searched,
        upper=upper,
        exact=np.logical_and.reduce(by_path | ~in_a, axis=1) & (proven.status == _PROVED) & sound,
        reward_lower=reward_lower,
        reward_upper=proofs.reward_upper,
        certain_lower=certain_lower,
        certain_upper=certain_upper,
        selected=selected,
        searched_selected=plan.outputs.out_i[:, OutI.FIRST],
        lower_size=size,
        searched_size=searched_size,
        upper_size=upper_size,
        reward_size=reward_size,
        certain_size=certain_size,
        share=eps,
    )
    route = None
    if isinstance(plan.policy, ConstrainedBeam):
        route = _route(plan, plan.policy, evidence, proofs.reward_only)
        evidence = evidence._replace(selected=route.released)
    unreached = by_path & ~(evidence.lower >= evidence.upper)
    upper_paths = np.where(unreached[:, :, None], proven.outputs.paths[:, : in_a.shape[1]], np.int32(-1))
    return Found(evidence, route, paths, upper_paths)


def action_set(flags: NDArray[np.uint8]) -> Bools:
    """Feasible, standing for itself, and not proved dead."""
    asked = First.FEASIBLE | First.DUPLICATE | First.DEAD
    return np.asarray((flags & asked) == First.FEASIBLE)


def _columns(table: Floats, *which: int) -> tuple[Floats, ...]:
    """Columns of (W, m, n), each (W, m) with the windows of an action side by side in memory: that way a few actions
    are reduced at full speed."""
    windows, m, _ = table.shape
    out = np.empty((len(which), m, windows))
    for lo in range(0, windows, BLOCK):
        part = table[lo : lo + BLOCK].T
        for k, column in enumerate(which):
            out[k, :, lo : lo + BLOCK] = part[column]
    return tuple(values.T for values in out)


def _reconciled(
    lower: Floats, lower_size: Floats, upper: Floats, upper_size: Floats, eps: Floats
) -> tuple[Floats, Floats, Bools]:
    """Upper values are at least what a path reaches: a difference within tau is rounding; a larger one says that the
    bound is none, and it counts as unknown. Third, whether every upper value of the window was sound."""
    below = lower >= upper  # equal: the path that reaches it is known, and its size counts
    rounding = below & (lower - upper <= tolerance(eps, lower_size, upper_size))
    wrong = below & ~rounding
    upper = np.where(rounding, lower, np.where(wrong, np.nan, upper))
    return upper, np.where(rounding, lower_size, upper_size), ~np.logical_or.reduce(wrong, axis=1)


def _with_suffixes(proofs: Proofs, in_a: Bools, put_in: Suffixes) -> tuple[Floats, NDArray[np.int32]]:
    """(W, m, 4) score, reward, uncertainty, gross of each retained first action, with proved suffixes; and their paths.

    Kind oracle has the exact suffix of every first action; kind bound those its proof reached, the best one always.
    """
    plan, proof = proofs.plan, proofs.proven
    values = np.array(plan.outputs.table[:, :, _PATH])
    values[~in_a] = np.nan
    paths = np.array(plan.outputs.paths)
    chosen = np.zeros(in_a.shape, bool)
    if put_in.protect:
        chosen |= (plan.outputs.flags & First.GENERATED) != 0
    if put_in.constrained:
        first = proofs.reward_only.outputs.out_i[:, OutI.FIRST]
        rows = np.flatnonzero(first >= 0)
        chosen[rows, first[rows]] = True
    chosen &= in_a & ((proof.outputs.flags & First.RETAINED) != 0)
    # A tie keeps the searched path; otherwise the exact suffix is at least as good.
    chosen &= ~(values[:, :, _PATH.index(Col.SCORE)] >= proof.outputs.table[:, :, Col.SCORE])
    if chosen.any():
        values[chosen] = proof.outputs.table[chosen][:, _PATH]
        paths[chosen] = proof.outputs.paths[chosen]
    if put_in.constrained:  # a0 is always retained, if only by the path that makes it reward-only optimal
        own = proofs.reward_only.outputs.table[rows, first[rows]][:, _PATH[1:]]
        score = own[:, 0] - plan.settings.risk * own[:, 1]
        kept = in_a[rows, first[rows]] & ~(values[rows, first[rows], 0] >= score)
        rows, score, own = rows[kept], score[kept], own[kept]
        values[rows, first[rows]] = np.column_stack([score, own])
        paths[rows, first[rows]] = proofs.reward_only.outputs.path[rows]
    return values, paths


def _select(values: Floats, in_a: Bools) -> Ints:
    """argmax of the retained score; ties: lower uncertainty, then the smaller action."""
    score = np.where(in_a & ~np.isnan(values[:, :, 0]), values[:, :, 0], -np.inf)
    top = np.maximum.reduce(score, axis=1, initial=-np.inf)
    tied = (score == top[:, None]) & np.isfinite(score)
    calm = np.where(tied, values[:, :, 2], np.inf)
    best = np.argmin(calm, axis=1)
    return np.where(np.logical_or.reduce(tied, axis=1), best, -1)


def _route(plan: PanelPlan, policy: ConstrainedBeam, evidence: Evidence, reward_only: PanelPlan) -> Route:
    table = plan.outputs.table
    steps = table[:, :, Col.STEP_REWARD] - policy.risk * table[:, :, Col.STEP_UNCERTAINTY]
    if policy.mode == "members":
        steps = np.full_like(steps, np.nan)
    return choose(
        retained=evidence.actions & ~np.isnan(evidence.lower),
        score=evidence.lower,
        reward=evidence.lower_reward,
        uncertainty=evidence.lower_uncertainty,
        step_score=steps,
        selected=evidence.selected,
        baseline=reward_only.outputs.out_i[:, OutI.FIRST],
        risk=policy.risk,
        near_equal=policy.near_equal,
        band=policy.band,
        utility_budget=policy.utility_budget,
        size=evidence.lower_size,
        eps=evidence.share,
    )
