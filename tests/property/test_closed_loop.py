"""Closed mode against a brute force over every policy on the tree of histories, 10,000 random tasks a run."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import some
from ucsearch.engine.arrays import First, Status


class State(NamedTuple):
    s: float


class Rules(NamedTuple):
    """Whole numbers that scramble states, actions and outcomes into a task of at most 50 states."""

    size: float
    k1: float
    k2: float
    k3: float
    k4: float
    k5: float
    k6: float


def feasible(s, a, p):
    return (s.s * p.k4 + a * p.k5 + p.k6) % 5.0 != 0.0


def step(s, a, y, p):
    return State((s.s * p.k1 + a * p.k2 + y * p.k3 + p.k6) % p.size)


def reward(s, a, y, p):
    return 0.37 * ((s.s * p.k3 + a * p.k4 + y * p.k1) % 11.0) - 1.9


def fallback(s, p):
    return 0.0


def terminal(s, p):
    return 0.11 * ((s.s * p.k5) % 7.0)


TASKS = {
    m: uc.Task(
        "scrambled", State, tuple(float(x) for x in range(m)), feasible, step, reward, fallback,
        params=Rules(5.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0), terminal=terminal,
    )
    for m in (2, 3)
}  # fmt: skip


def rho(values, weights, risk, tail):
    """(K, W, P) values, (K, W) weights: the nested measure of one step, by sorting."""
    mean = sum(w[:, None] * x for w, x in zip(weights, values, strict=True))
    if risk == 0.0:
        return mean
    order = np.argsort(values, axis=0)
    x = np.take_along_axis(values, order, axis=0)
    w = np.take_along_axis(np.broadcast_to(weights[:, :, None], values.shape), order, axis=0)
    before = np.cumsum(w, axis=0) - w
    taken = np.clip(tail - before, 0.0, w)
    with np.errstate(invalid="ignore"):
        cvar = np.where(taken > 0.0, taken * x, 0.0).sum(axis=0) / tail
    return np.where(np.isfinite(mean), (1.0 - risk) * mean + risk * cvar, -np.inf)


def brute(states, rules, members, weights, m, depth, discount, risk, tail):
    """(W, m) best value of every first action over all policies, each an assignment of an action to every history."""
    size = members.shape[1]
    nodes = sum(size**h for h in range(depth))
    p = Rules(*(column[:, None] for column in rules.T))
    best = np.full((len(states), m), -np.inf)
    for first in range(m):
        rest = np.array(list(itertools.product(range(m), repeat=nodes - 1)), dtype=float)
        policies = np.column_stack([np.full(len(rest), float(first)), rest])

        def value(s, h, node, policies=policies):
            if h == depth:
                return 0.11 * ((s * p.k5) % 7.0)
            a = policies[:, node][None]
            parts = []
            for j in range(size):
                y = members[:, j, h][:, None]
                ahead = value((s * p.k1 + a * p.k2 + y * p.k3 + p.k6) % p.size, h + 1, node * size + 1 + j)
                parts.append(0.37 * ((s * p.k3 + a * p.k4 + y * p.k1) % 11.0) - 1.9 + discount * ahead)
            with np.errstate(invalid="ignore"):
                total = rho(np.array(parts), weights.T, risk, tail)
            allowed = (s * p.k4 + a * p.k5 + p.k6) % 5.0 != 0.0
            return np.where(allowed & ~np.isnan(total), total, -np.inf)

        start = np.repeat(states[:, None], len(policies), axis=1)
        best[:, first] = value(start, 0, 0).max(axis=1)
    return best


def problems(seed, count, members, depth):
    r = np.random.default_rng(seed)
    rules = np.column_stack([r.integers(2, 51, count), r.integers(1, 40, (count, 6))]).astype(float)
    y = r.integers(0, 4, (count, members, depth)).astype(float)
    weights = r.random((count, members)) + 0.05
    states = np.floor(r.random(count) * rules[:, 0])
    return states, rules, y, weights / weights.sum(axis=1, keepdims=True)


CASES = [
    # windows, members, depth, actions, discount, risk
    (5_000, 2, 3, 2, 1.0, 0.0),
    (2_000, 3, 2, 3, 0.9, 0.0),
    (1_400, 2, 3, 2, 1.0, 0.6),
    (1_500, 3, 1, 3, 1.0, 0.25),
    (40, 2, 4, 2, 1.0, 0.0),
    (60, 3, 2, 3, 1.0, 1.0),
]


@pytest.mark.parametrize(("count", "size", "depth", "m", "discount", "risk"), CASES)
def test_no_policy_beats_the_recursion(count, size, depth, m, discount, risk):
    count = some(count)
    states, rules, y, weights = problems(count + depth, count, size, depth)
    trace = uc.Trace.from_members(y, weights, coupling="independent")
    policy = uc.Exact(depth=depth, mode="closed", risk=risk, discount=discount, tail=0.3)
    plan = uc.search_panel(
        TASKS[m], states[:, None], trace, policy, params=rules, engine="compiled" if m == 2 else "python"
    ).raise_for_errors()
    expected = brute(states, rules, y, weights, m, depth, discount, risk, 0.3)
    found = plan.outputs.table[:, :, 0].copy()
    # A smaller action stands for one of the same effect, which then has the same value.
    for w, i in np.argwhere(plan.outputs.flags & First.DUPLICATE != 0):
        assert any(np.isclose(expected[w, i], expected[w, j], rtol=0, atol=1e-12) for j in range(i))
        found[w, i] = expected[w, i]
    found[np.isnan(found)] = -np.inf
    assert (np.isinf(found) == np.isinf(expected)).all()
    live = np.isfinite(expected)
    assert live.sum() > count / 2
    assert np.abs(found[live] - expected[live]).max() < 1e-11
    assert ((plan.status == Status.DEAD_END) == ~live.any(axis=1)).all()


def test_the_cases_are_ten_thousand():
    assert sum(case[0] for case in CASES) >= 10_000
