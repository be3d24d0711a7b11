"""Reweighted and penalised perfect-information bounds on a members graph. Import inside functions: pulls in Numba.

p_j are the members' weights (sum 1), r_j a common plan's member returns, m = sum_j p_j r_j, S = m - lam * spread(r).
For w >= 0 with sum_j p_j w_j = 1 and a constant c, call (w, c) admissible if S <= sum_j p_j w_j r_j + c for all r:
  std       m - lam*std(r) <= m + sum_j p_j (w_j - 1)(r_j - m), by Cauchy-Schwarz, if std(w) <= lam; c = 0.
  variance  sum_j p_j (w_j - 1)(r_j - m) + lam*Var(r) >= lam*t^2 - std(w)*t, t = std(r), which is never below
            -Var(w)/(4 lam); so c = Var(w)/(4 lam) serves every w.
  downside  with D = (sum_j p_j ((m - r_j)+)^2)^(1/2) and any xi >= 0 with sum_j p_j xi_j^2 <= 1:
            D >= sum_j p_j xi_j (m - r_j)+ >= sum_j p_j xi_j (m - r_j) = m*mean(xi) - sum_j p_j xi_j r_j, hence
            m - lam*D <= sum_j p_j (1 + lam*(xi_j - mean(xi))) r_j; c = 0. Equality at xi_j = (m - r_j)+ / D.
  cvar      S = (1 - lam)*m + lam*CVaR_q(r) and CVaR_q(r) = min of sum_j p_j xi_j r_j over 0 <= xi_j <= 1/q with
            sum_j p_j xi_j = 1; so w_j = (1 - lam) + lam*xi_j serves for every such xi, c = 0. Equality at the worst
            share.
Each set is convex, so mixtures of admissible weights are admissible (c of the mixture for the variance).

Penalties z_j[h, x] on action x at step h with sum_j p_j w_j z_j[h, x] = 0 cancel on every common plan, so with q = p*w
  UB(a) = sum_j q_j * max over member j's own suffixes after a of (r_j + sum_h z_j[h, x_h]) + c.
This contains mu_j . actions (z linear in the action); here z is a free step function of it, which is at least as good
and converges faster. Every iterate is a bound and the smallest seen is returned.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.members.weights import (
    Floats,
    Measure,
    admissible_weights,
    constant_of,
    rounding_is_small,
    score_of,
)
from ucsearch.engine.cache import compiled

__all__ = ["admissible_weights", "first_bounds", "rounding_is_small", "score_of"]

_FIRST_STEP, _LAST_STEP = 1.25, 0.3  # relaxation of Polyak's step, falling geometrically
_ASTRAY, _BACK_OFF = 5, 0.8  # passes far above the best bound before going back to it, and the relaxation then
_REWEIGH = 3  # steps between moves of the weights
_LEAST_MOVE = 0.15  # of the way to the weights aimed at
_MEMORY = 0.1  # how much the newest returns count in the running average the weights aim at
_TIGHT = 1e-12  # relative gap to a common plan's score below which nothing is left to gain
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]


class Part(NamedTuple):
    """A graph (its edges as in `members_graph.Graph`) and what of it lies after one first action."""

    first: Longs  # (n + 1,)
    act: Ints  # (E,)
    child: Ints  # (E,)
    gain: Floats  # (E,)
    end: Floats  # (n,)
    order: Longs  # nodes that can be reached and have a completion, ascending
    layers: Longs  # (J * d + 1,) layer h = 1..d of member j: order[layers[j * d + h - 1] : layers[j * d + h]]
    head: Floats  # (J,) discounted reward of the first action


@compiled
def living(starts: Longs, first: Longs, child: Ints, d: int) -> NDArray[np.bool_]:
    """(n,) whether the node has a completion."""
    alive = np.zeros(first.size - 1, np.bool_)
    for last in range(starts.size - 2, -1, -1):  # layers, the deepest of each member first
        for i in range(starts[last], starts[last + 1]):
            alive[i] = last % (d + 1) == d
            for e in range(first[i], first[i + 1]):
                alive[i] = alive[i] or alive[child[e]]
    return alive


@compiled
def edge(first: Longs, act: Ints, i: int, x: int) -> int:
    """The edge of node i with action x; -1 when there is none."""
    for e in range(first[i], first[i + 1]):
        if act[e] == x:
            return e
    return -1


@compiled
def after(
    a: int, d: int, starts: Longs, first: Longs, act: Ints, child: Ints, gain: Floats, end: Floats,
    alive: NDArray[np.bool_],
) -> tuple[bool, Part]:  # fmt: skip
    """The part after first action `a`; False when some member has no completion after it."""
    members = starts.size // (d + 1)
    reached = np.zeros(alive.size, np.bool_)
    order, layers = np.empty(alive.size, np.int64), np.zeros(members * d + 1, np.int64)
    part = Part(first, act, child, gain, end, order, layers, np.zeros(members))
    count = 0
    for j in range(members):
        e = edge(first, act, starts[j * (d + 1)], a)
        if e < 0 or not alive[child[e]]:
            return False, part
        part.head[j] = gain[e]
        reached[child[e]] = True
        for h in range(1, d + 1):
            for i in range(starts[j * (d + 1) + h], starts[j * (d + 1) + h + 1]):
                if reached[i] and alive[i]:
                    order[count] = i
                    count += 1
                    for k in range(first[i], first[i + 1]):
                        reached[child[k]] = True
            layers[j * d + h] = count
    return True, part


@compiled
def _common_returns(d: int, m: int, part: Part, plan: Longs, q: Floats, value: Floats, returns: Floats) -> bool:
    """Member returns of one plan for all, its first action being the part's own; False when it is infeasible.

    With values to go (`value` not empty) not `plan` is followed but what looks best on q-average, step by step.
    """
    at = np.empty(q.size, np.int64)
    for j in range(q.size):
        at[j] = part.order[part.layers[j * d]]
        returns[j] = part.head[j]
    for h in range(1, d):
        action = -1 if value.size > 0 else plan[h]
        best = -np.inf
        for x in range(m if value.size > 0 else 0):
            total = 0.0
            for j in range(q.size):
                e = edge(part.first, part.act, at[j], x)
                total += -np.inf if e < 0 else q[j] * (part.gain[e] + value[part.child[e]])
            if total > best:
                best, action = total, x
        for j in range(q.size):
            e = edge(part.first, part.act, at[j], action)
            if e < 0:
                return False
            returns[j] += part.gain[e]
            at[j] = part.child[e]
    for j in range(q.size):
        returns[j] += part.end[at[j]]
    return True


@compiled
def _own_plans(
    d: int, part: Part, penalty: Floats, value: Floats, choice: Longs, plans: Longs, returns: Floats
) -> None:
    """Each member's best plan for itself under its penalties (the first edge wins a tie): penalised values to go into
    `value` (-inf at dead ends, and so when called), the plan's actions into `plans`, its return without penalties
    into `returns`."""
    for j in range(part.head.size):
        for k in range(part.layers[j * d + d - 1], part.layers[j * d + d]):
            value[part.order[k]] = part.end[part.order[k]]
        for h in range(d - 1, 0, -1):
            for k in range(part.layers[j * d + h - 1], part.layers[j * d + h]):
                i = part.order[k]
                best = -np.inf
                for e in range(part.first[i], part.first[i + 1]):
                    total = (part.gain[e] + penalty[j, h, part.act[e]]) + value[part.child[e]]
                    if total > best:
                        best = total
                        choice[i] = e
                value[i] = best
        at = part.order[part.layers[j * d]]
        returns[j] = part.head[j]
        for h in range(1, d):
            plans[j, h] = part.act[choice[at]]
            returns[j] += part.gain[choice[at]]
            at = np.int64(part.child[choice[at]])
        returns[j] += part.end[at]


@compiled
def _weighted(d: int, part: Part, q: Floats, value: Floats, shift: float) -> float:
    """sum_j q_j V_j, summed around `shift`, so that a rounding error in sum_j q_j = 1 is not multiplied by V."""
    total = 0.0
    for j in range(q.size):
        total += q[j] * ((part.head[j] + value[part.order[part.layers[j * d]]]) - shift)
    return shift + total


# -------------------------------------------------------------------- bounds


@compiled
def _enumerate(d: int, m: int, part: Part, p: Floats, lam: float, spread: Measure) -> tuple[float, int]:
    """The best S over all common plans of the part, -inf if there is none, and the joint nodes visited."""
    at = np.zeros((d + 1, p.size), np.int64)
    total = np.zeros((d + 1, p.size))
    for j in range(p.size):
        at[1, j] = part.order[part.layers[j * d]]
        total[1, j] = part.head[j]
    cursor = np.zeros(d + 1, np.int64)
    best, nodes, h = -np.inf, 1, 1
    while h >= 1:
        x = cursor[h]
        cursor[h] += 1
        if h == d:
            for j in range(p.size):
                total[d, j] += part.end[at[d, j]]
            best = max(best, score_of(total[d], p, lam, spread))
        if h == d or x >= m:
            h -= 1
            continue
        fits = True
        for j in range(p.size):
            e = edge(part.first, part.act, at[h, j], x)
            if e < 0:
                fits = False
                break
            at[h + 1, j] = part.child[e]
            total[h + 1, j] = total[h, j] + part.gain[e]
        if fits:
            nodes += 1
            h += 1
            cursor[h] = 0
    return best, nodes


@compiled
def _disagreement(d: int, m: int, q: Floats, plans: Longs, tail: Floats) -> float:
    """tail[h, x]: the q-share of members that choose at least action x at step h. Returns the subgradient's square
    norm, which is 0 when all choose the same plan."""
    norm = 0.0
    for h in range(1, d):
        for x in range(m + 1):
            tail[h, x] = 0.0
        for j in range(q.size):
            tail[h, plans[j, h]] += q[j]
        for x in range(m - 1, 0, -1):
            tail[h, x] += tail[h, x + 1]
            norm += tail[h, x] * (1.0 - tail[h, x])
    return norm


@compiled
def _move_penalties(
    d: int, m: int, q: Floats, plans: Longs, tail: Floats, norm: float, gap: float, direction: Floats, penalty: Floats
) -> None:
    """Dearer what a member alone wants, threshold by threshold. The subgradient is averaged with the direction before
    at equal length, which damps zigzagging; where the two all but cancel it stands alone."""
    old, inner = 0.0, 0.0
    for j in range(q.size):
        for h in range(1, d):
            for x in range(1, m):
                old += q[j] * direction[j, h, x] * direction[j, h, x]
                inner += q[j] * direction[j, h, x] * ((1.0 if plans[j, h] >= x else 0.0) - tail[h, x])
    keep = math.sqrt(norm / old) if old > 0.0 else 0.0
    square = 2.0 * (norm + keep * inner)
    if not (keep > 0.0 and square >= 0.01 * norm):
        keep, square = 0.0, norm
    for j in range(q.size):
        for h in range(1, d):
            slope = 0.0
            for x in range(1, m):
                new = (1.0 if plans[j, h] >= x else 0.0) - tail[h, x]
                direction[j, h, x] = new + keep * direction[j, h, x]
                slope += direction[j, h, x]
                penalty[j, h, x] -= gap / max(square, 1e-6) * slope


@compiled
def _cancel_penalties(d: int, m: int, q: Floats, penalty: Floats) -> float:
    """sum_j q_j z_j = 0 again, whatever the weights have become. Returns how large the penalties can add up."""
    mass = 0.0
    for h in range(1, d):
        for x in range(1, m):
            mean = 0.0
            for j in range(q.size):
                mean += q[j] * penalty[j, h, x]
            for j in range(q.size):
                penalty[j, h, x] -= mean
                mass += q[j] * abs(penalty[j, h, x])
    return mass


@compiled
def _keep(penalty: Floats, w: Floats, best_penalty: Floats, best_w: Floats) -> None:
    """What gave the bound, copied by loops: numba takes seconds to compile what `best_penalty[:] = penalty` checks."""
    for j in range(w.size):
        best_w[j] = w[j]
        for h in range(penalty.shape[1]):
            for x in range(penalty.shape[2]):
                best_penalty[j, h, x] = penalty[j, h, x]


@compiled
def _penalised(
    d: int, m: int, part: Part, p: Floats, lam: float, spread: Measure, plan: Longs, seed: Floats, steps: int,
    warm: bool, best_penalty: Floats, best_w: Floats,
) -> tuple[float, float]:  # fmt: skip
    """The best bound in `steps` backward passes (fewer once it is tight), and the plain one.

    `plan` is tried as a common plan; `seed` are the returns to weigh at if it does not fit. Penalties take Polyak
    steps towards the best common plan met on the way, weights Frank-Wolfe steps towards those that are tight at the
    running average of the members' own returns. `warm`: start from `best_penalty` and `best_w`, which belong to
    another first action (they are admissible for any); both return what gave the bound.
    """
    value, choice = np.full(part.end.size, -np.inf), np.zeros(part.end.size, np.int64)
    penalty, direction = np.zeros((p.size, d, m)), np.zeros((p.size, d, m))
    plans, tail = np.zeros((p.size, d), np.int64), np.zeros((d, m + 1))
    own, common, average = np.zeros(p.size), np.zeros(p.size), np.zeros(p.size)
    w, aim, q = np.ones(p.size), np.ones(p.size), p.copy()
    floor = -np.inf  # score of the best common plan known: no bound can fall below it
    c = admissible_weights(seed, p, lam, spread, w)
    if _common_returns(d, m, part, plan, p, value[:0], common):
        floor = score_of(common, p, lam, spread)
        c = admissible_weights(common, p, lam, spread, w)
    _own_plans(d, part, penalty, value, choice, plans, own)
    plain = _weighted(d, part, p, value, part.head[0] + value[part.order[0]])
    best = plain
    room = 0.05 * abs(plain)  # a guess at the gap while no common plan is known
    for e in range(part.gain.size):
        room = max(room, 0.01 * abs(part.gain[e]))
    relax, shrink = _FIRST_STEP, math.exp(math.log(_LAST_STEP / _FIRST_STEP) / steps)
    mass, moves, astray = 0.0, 0, 0
    if warm:
        penalty, w = best_penalty.copy(), best_w.copy()
        c = constant_of(w, p, lam, spread)
    for t in range(steps):
        for j in range(p.size):
            q[j] = p[j] * w[j]
        if warm or t > 0:
            mass = _cancel_penalties(d, m, q, penalty)
            _own_plans(d, part, penalty, value, choice, plans, own)
        bound = _weighted(d, part, q, value, plain) + c
        if not (bound > -np.inf and bound < np.inf):
            break
        if bound < best and rounding_is_small(mass, p.size + 2 * d, bound, room):
            best = bound
            _keep(penalty, w, best_penalty, best_w)
        if _common_returns(d, m, part, plan, q, value, common):
            floor = max(floor, score_of(common, p, lam, spread))
        if best - floor <= _TIGHT * abs(best):
            break
        rate = max(_MEMORY, 1.0 / (t + 1.0))
        for j in range(p.size):
            average[j] += rate * (own[j] - average[j])
        relax *= shrink
        target = floor if floor > -np.inf else best - room
        astray = astray + 1 if bound - best > 2.0 * (best - target) else 0
        if astray >= _ASTRAY:
            astray, relax = 0, relax * _BACK_OFF
            penalty, w, direction = best_penalty.copy(), best_w.copy(), np.zeros((p.size, d, m))
            c = constant_of(w, p, lam, spread)
            continue
        norm = _disagreement(d, m, q, plans, tail)
        agreed = not norm > 1e-9
        if not agreed:
            _move_penalties(d, m, q, plans, tail, norm, relax * (bound - target), direction, penalty)
        elif not lam > 0.0:
            break
        if lam > 0.0 and (agreed or (t + 1) % _REWEIGH == 0):
            admissible_weights(own if agreed else average, p, lam, spread, aim)
            share = 0.5 if agreed else max(_LEAST_MOVE, 2.0 / (moves + 3.0))
            moves += 1
            for j in range(p.size):
                w[j] += share * (aim[j] - w[j])
            c = constant_of(w, p, lam, spread)
    return best, plain


@compiled
def first_bounds(
    d: int, m: int, starts: Longs, first: Longs, act: Ints, child: Ints, gain: Floats, end: Floats, p: Floats,
    lam: float, spread: Measure, incumbent: Longs, steps: int, few: bool, upper: Floats, plain: Floats,
) -> int:  # fmt: skip
    """Bounds for every first action into `upper` and `plain` (m,); returns the joint nodes visited.

    `few`: enumerate, so that `upper` is exact.
    """
    alive = living(starts, first, child, d)
    seed = np.zeros(p.size)
    if incumbent[0] >= 0:
        fits, part = after(incumbent[0], d, starts, first, act, child, gain, end, alive)
        if not (fits and _common_returns(d, m, part, incumbent, p, seed[:0], seed)):
            seed = np.zeros(p.size)
    # From the incumbent's action upwards, then from it downwards: each starts where its neighbour ended.
    nodes, bounded, start = 0, 0, max(incumbent[0], 0)
    penalty, w = np.zeros((p.size, d, m)), np.ones(p.size)
    middle_penalty, middle_w = penalty.copy(), w.copy()
    for k in range(m):
        a = start + k if start + k < m else m - 1 - k
        if a == start - 1:
            penalty, w = middle_penalty, middle_w
        upper[a] = -np.inf
        plain[a] = -np.inf
        fits, part = after(a, d, starts, first, act, child, gain, end, alive)
        if fits:
            upper[a], plain[a] = _penalised(
                d, m, part, p, lam, spread, incumbent, seed, 1 if few else steps, bounded > 0, penalty, w
            )
            bounded += 1
            if few:
                upper[a], seen = _enumerate(d, m, part, p, lam, spread)
                nodes += seen
            elif not (upper[a] > -np.inf and upper[a] < np.inf):
                upper[a] = np.nan
        if a == start:
            middle_penalty, middle_w = penalty.copy(), w.copy()
    return nodes
