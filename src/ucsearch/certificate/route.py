"""The planning-value route (docs/reference/record.md): what a certificate-constrained beam proposes.

`a0` is a reward-only optimum. Against it, a rival must gain score, relieve risk, owe its gain to later steps (not to
the first one), and give up no more reward than the budget allows; the smallest of these slacks is its release margin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.claims import tolerance
from ucsearch.policies import ConstrainedBeam

__all__ = ["Retained", "Route", "choose"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Route(NamedTuple):
    """Per window: what is put forward, its margin, and whether the route (not the plain argmax) decided."""

    released: Ints  # (W,)
    baseline: Ints  # (W,) a0
    margin: Floats  # (W,) release margin of the released action; NaN when the route did not decide
    routed: Bools  # (W,)
    margins: Floats  # (W, m) release margins of all retained rivals of a0; NaN elsewhere
    tau: Floats  # (W,) of the released action's score and a0's; NaN when the route did not decide


class Retained(NamedTuple):
    """Paths that the search retained, by their first action."""

    known: Bools  # (W, m) first actions of retained paths
    score: Floats  # (W, m) Qr
    reward: Floats  # (W, m) R of that path
    uncertainty: Floats  # (W, m) U
    step_score: Floats  # (W, m) g of the first step; NaN in members mode, where it is left out
    size: Floats  # (W, m) of the tolerance, as the next
    eps: Floats  # (W,)


def choose(paths: Retained, selected: Ints, baseline: Ints, policy: ConstrainedBeam) -> Route:
    """Candidates are near-equal in score with a positive margin; within the band the least reward given up wins.
    `selected` (W,) is argmax Qr, `baseline` (W,) is a0."""
    retained, score, reward, uncertainty, step_score, size, eps = paths
    rows = np.arange(selected.size)
    known = (selected >= 0) & (baseline >= 0) & retained[rows, np.maximum(baseline, 0)]
    a0 = np.maximum(baseline, 0)
    rival = retained & (np.arange(score.shape[1])[None] != a0[:, None]) & known[:, None]
    gain = score - score[rows, a0][:, None]
    relief = policy.risk * (uncertainty[rows, a0][:, None] - uncertainty)
    cost = np.maximum(0.0, reward[rows, a0][:, None] - reward)
    margin = np.minimum(np.minimum(gain, relief), policy.utility_budget - cost)
    plan = gain - (step_score - step_score[rows, a0][:, None])
    margin = np.where(np.isnan(plan), margin, np.minimum(margin, plan))
    best = np.max(np.where(retained, score, -np.inf), axis=1, initial=-np.inf)
    best_size = np.max(np.where(retained & (score == best[:, None]), size, 0.0), axis=1, initial=0.0)
    near = best[:, None] - score <= policy.near_equal + tolerance(eps[:, None], best_size[:, None], size)
    tau = tolerance(eps[:, None], size[rows, a0][:, None], size)
    candidate = rival & near & (margin > tau)
    routed = candidate.any(axis=1)
    top = np.max(np.where(candidate, margin, -np.inf), axis=1, initial=-np.inf)
    finalist = candidate & (margin >= (top - policy.band)[:, None])
    released = np.array(selected)
    for w in np.flatnonzero(routed):
        options = np.flatnonzero(finalist[w])
        released[w] = min(options.tolist(), key=lambda i, w=w: (cost[w, i], -score[w, i], i))  # type: ignore[misc]
    return Route(
        released=released,
        baseline=baseline,
        margin=np.where(routed, margin[rows, np.maximum(released, 0)], np.nan),
        routed=routed,
        margins=np.where(rival, margin, np.nan),
        tau=np.where(routed, tau[rows, np.maximum(released, 0)], np.nan),
    )
