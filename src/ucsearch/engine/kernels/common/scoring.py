"""Scoring the actions of a node and adding up a path. Same operations in the same order as engine/plain/window.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ucsearch.engine.arrays import Col, Fault, First
from ucsearch.engine.kernels.common import spreads
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import LANES, Shape

NONE, REWARD, STATE, BOUND = Fault.NONE, Fault.REWARD, Fault.STATE, Fault.BOUND
TERMINAL, VALUE = Fault.TERMINAL, Fault.VALUE
FEASIBLE, DUPLICATE = First.FEASIBLE, First.DUPLICATE
STEP_REWARD, STEP_UNCERTAINTY = int(Col.STEP_REWARD), int(Col.STEP_UNCERTAINTY)


Function = Callable[..., Any]


class Scoring(NamedTuple):
    score: Function  # (h, st, i, only, use_bound, win, panel, tables, cand) -> count, fault, its action
    extend: Function  # (h, R, U, G, ret, i, c, win, panel, cand, chret, n) -> R, U, G, continuation, dropped, fault
    top: Function  # (count, most, cand, rows, best) -> how many of the best candidates are in `best`
    same: Function  # (cand, x, y, rows) -> whether two candidates have the same effect
    alive: Function  # (st, i, win, panel) -> whether any action is allowed at node i
    mark_root: Function  # (count, cand, win, res)
    suffixes: Function  # (win, panel, suffix)


def build(rules: Rules, k: Shape, jit: Any) -> Scoring:
    MEMBERS, SCORES, SCALAR, N = k.members, k.scores, k.scalar, k.n
    CONTINUES, CONTINUATIONS = k.continuations > 0, k.continuations
    HAS_TERMINAL, HAS_END = k.has_terminal, k.has_end
    allowed, ended, final, toward = rules.allowed, rules.ended, rules.final, rules.toward
    moved, paid, valued, follow = rules.moved, rules.paid, rules.valued, rules.follow
    spread_of, spreads_of, all_finite, _ = spreads.build(jit)

    @jit.inline
    def alive(st, i, win, panel):
        for x in range(panel.actions.shape[1]):
            a = panel.actions[win.arow, x]
            if a == a and allowed(st, i, win.rows, a, win.p):
                return True
        return False

    @jit.lean
    def same(cand, x, y, rows):
        """Two candidates with the same effect."""
        if cand.q[x] != cand.q[y] or cand.u[x] != cand.u[y]:
            return False
        for r in range(rows):
            if MEMBERS and cand.rew[x, r] != cand.rew[y, r]:
                return False
            for f in range(N - 1, -1, -1):  # what an action changes tends to lie at the end
                if cand.st[x, r, f] != cand.st[y, r, f]:
                    return False
        return True

    @jit.lean_call
    def suffixes(win, panel, suffix):
        """Of a forecast of scores: the best that the steps from h on can add."""
        suffix[win.d] = 0.0
        for back in range(win.d):
            h = win.d - 1 - back
            best = -np.inf
            for x in range(panel.actions.shape[1]):
                if panel.actions[win.arow, x] == panel.actions[win.arow, x]:
                    best = max(best, panel.q[win.w, h, x] - win.risk * panel.u[win.w, h, x])
            suffix[h] = suffix[h + 1] + best

    @jit.inline
    def togo_of(st, i, at, win, panel, tables, cand):
        """Optimistic value to go from step `at`; at the end it is the terminal value itself. Second result: a fault."""
        if SCORES:
            return cand.suffix[at], 0
        ends = at == win.d and not CONTINUES
        if ends and not HAS_TERMINAL:
            return 0.0, 0
        for r in range(win.rows):
            if ends:
                value = final(st, i, r, win.p)
                if not math.isfinite(value):
                    return 0.0, TERMINAL
            else:
                value = toward(st, i, r, at, tables, win.p)
                if value != value:
                    return 0.0, BOUND
            cand.work[0, r] = value
        if MEMBERS:
            value, _ = spread_of(cand.work, 0, panel.weights, win.wrow, (0, 0.0))
            return value, 0
        return cand.work[0, 0], 0

    @jit.inline
    def score(h, st, i, only, use_bound, win, panel, tables, cand):
        """Score every feasible action of node i, or `only` one (-1: all): count, fault kind, its action.

        Of a few candidates first what the rules say of each, then their spreads at once. A fault ends the count at its
        candidate; one that is found later but lies further ahead takes its place."""
        w, rows = win.w, win.rows
        count = 0
        fault = 0
        fault_action = 0
        x = 0
        if not SCORES and not MEMBERS and SCALAR:
            for j in range(panel.members.shape[1]):
                cand.edge[LANES, j] = panel.members[w, j, h, 0]
        while x < panel.actions.shape[1] and fault == 0:
            begin = count
            while x < panel.actions.shape[1] and count - begin < (1 if MEMBERS else LANES):
                a = panel.actions[win.arow, x]
                if (only >= 0 and x != only) or a != a or not allowed(st, i, rows, a, win.p):
                    x += 1
                    continue
                if SCORES:
                    cand.q[count] = panel.q[w, h, x]
                    cand.u[count] = panel.u[w, h, x]
                    if not moved(st, i, 0, a, win.w, h, 0, panel, cand.st, count, win.p):
                        fault = STATE
                elif MEMBERS:
                    for r in range(rows):
                        cand.rew[count, r] = paid(st, i, r, a, win.w, h, r, panel, win.p)
                    cand.q[count], cand.u[count] = spread_of(cand.rew, count, panel.weights, win.wrow, win.spread)
                    if not all_finite(cand.q[count], cand.rew, count):
                        fault = REWARD
                    for r in range(rows if fault == 0 else 0):
                        if not moved(st, i, r, a, win.w, h, r, panel, cand.st, count, win.p):
                            fault = STATE
                            break
                else:
                    fault = valued(st, i, a, win, h, panel, count, cand, count - begin)
                if fault != 0:
                    fault_action = x
                    break
                cand.act[count] = x
                count += 1
                x += 1
            if not SCORES and not MEMBERS and count > begin:
                spreads_of(cand.edge, begin, count, panel.weights, win.wrow, win.spread, cand.rank, cand.u)
                for c in range(begin, count):
                    if not all_finite(cand.rank[c], cand.edge, c - begin):
                        count = c
                        fault = REWARD
                        fault_action = cand.act[c]
                        break
        for c in range(count):
            if not (math.isfinite(cand.q[c]) and math.isfinite(cand.u[c])):
                return c, VALUE, cand.act[c]
            rank = cand.q[c] - win.prune * cand.u[c] + win.bonus * cand.u[c]
            togo = 0.0
            if use_bound:
                togo, code = togo_of(cand.st, c, h + 1, win, panel, tables, cand)
                if code != 0:
                    return c, code, cand.act[c]
                rank = rank + togo
            cand.rank[c] = rank
            cand.togo[c] = togo
        return count, fault, fault_action

    @jit.inner
    def continued(gross, c, win, panel, cand, chret, n):
        """The best continuation over the same members: higher S, lower U, earlier in the list."""
        best = -1
        best_reward = 0.0
        best_uncertainty = 0.0
        best_score = 0.0
        best_gross = 0.0
        for x in range(CONTINUATIONS):
            most, code = follow(x, cand.st, c, win.rows, chret, n, win, panel, cand.total)
            if code < 0:
                continue
            if code != NONE:
                return 0.0, 0.0, 0.0, -1, False, code
            reward, uncertainty = spread_of(cand.total, 0, panel.weights, win.wrow, win.spread)
            worth = reward - win.risk * uncertainty
            if not (math.isfinite(reward) and math.isfinite(uncertainty) and math.isfinite(worth)):
                return 0.0, 0.0, 0.0, -1, False, VALUE
            if best < 0 or worth > best_score or (worth == best_score and uncertainty < best_uncertainty):
                best = x
                best_reward = reward
                best_uncertainty = uncertainty
                best_score = worth
                best_gross = gross + most
        return best_reward, best_uncertainty, best_gross, best, best < 0, 0

    @jit.inline
    def extend(h, R, U, G, ret, i, c, win, panel, cand, chret, n):
        """The path of node i one candidate longer: R, U, gross, continuation, dropped, fault. Member returns go to
        chret[n]. Gross is the sum of the absolute rewards (members: of the largest member's at every step)."""
        d, p, disc = win.d, win.p, panel.disc
        factor = disc[h]
        last = h + 1 == d
        if HAS_END and last and not CONTINUES and not ended(cand.st, c, win.rows, p):
            return 0.0, 0.0, 0.0, -1, True, 0
        if not MEMBERS:
            reward = R + factor * cand.q[c]
            uncertainty = U + factor * cand.u[c]
            gross = G + abs(factor * cand.q[c])
            if last and HAS_TERMINAL:
                end = final(cand.st, c, 0, p)
                if not math.isfinite(end):
                    return 0.0, 0.0, 0.0, -1, False, TERMINAL
                reward = reward + disc[d] * end
                gross = gross + abs(disc[d] * end)
            if not math.isfinite(reward - win.risk * uncertainty):  # nor is it where one of the two is not
                return 0.0, 0.0, 0.0, -1, False, VALUE
            return reward, uncertainty, gross, -1, False, 0
        most = 0.0
        for r in range(win.rows):
            chret[n, r] = ret[i, r] + factor * cand.rew[c, r]
            most = max(most, abs(factor * cand.rew[c, r]))
        gross = G + most
        if CONTINUES and last:
            return continued(gross, c, win, panel, cand, chret, n)
        if last and HAS_TERMINAL:
            most = 0.0
            for r in range(win.rows):
                end = final(cand.st, c, r, p)
                if not math.isfinite(end):
                    return 0.0, 0.0, 0.0, -1, False, TERMINAL
                chret[n, r] = chret[n, r] + disc[d] * end
                most = max(most, abs(disc[d] * end))
            gross = gross + most
        reward, uncertainty = spread_of(chret, n, panel.weights, win.wrow, win.spread)
        if not (
            math.isfinite(reward) and math.isfinite(uncertainty) and math.isfinite(reward - win.risk * uncertainty)
        ):
            return 0.0, 0.0, 0.0, -1, False, VALUE
        return reward, uncertainty, gross, -1, False, 0

    @jit.lean_call
    def mark_root(count, cand, win, res):
        """Mark what is feasible at the root, with its first step's q and u, and what a smaller action stands for."""
        for x in range(count):
            res.flags[win.w, cand.act[x]] |= FEASIBLE
            res.table[win.w, cand.act[x], STEP_REWARD] = cand.q[x]
            res.table[win.w, cand.act[x], STEP_UNCERTAINTY] = cand.u[x]
            for y in range(x):
                if same(cand, x, y, win.rows):
                    res.flags[win.w, cand.act[x]] |= DUPLICATE
                    break

    @jit.lean
    def top(count, most, cand, rows, best):
        """The best candidates of different effect into `best`: higher rank, lower u, smaller action; how many."""
        chosen = 0
        for x in range(count):
            at = chosen
            while at > 0 and (
                cand.rank[x] > cand.rank[best[at - 1]]
                or (cand.rank[x] == cand.rank[best[at - 1]] and cand.u[x] < cand.u[best[at - 1]])
            ):
                at -= 1
            if at >= most:
                continue
            double = False
            for y in range(chosen):
                if same(cand, x, best[y], rows):
                    double = True
                    break
            if double:
                continue
            if chosen < most:
                chosen += 1
            for y in range(chosen - 1, at, -1):
                best[y] = best[y - 1]
            best[at] = x
        return chosen

    return Scoring(score, extend, top, same, alive, mark_root, suffixes)
