"""The paper's propositions and theorems, checked on what the searches actually return."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ucsearch as uc
from tests.kit.brute import enumerate_paths, spread_of
from tests.kit.counts import some
from tests.kit.problems import random_problem
from tests.kit.templates import TEMPLATES, Clock, Position, PositionParams, Step

CASES = [
    ("battery", "mean"), ("battery", "members"), ("stock", "mean"), ("stock", "members"), ("position", "scores"),
    ("tank", "mean"), ("pack", "members"), ("maze", "mean"), ("clock", "mean"), ("free", "members"),
]  # fmt: skip
SEEDS = st.integers(0, 2**32 - 1)


# -------------------------------------------------------------------- Proposition 1: the two counters


@pytest.mark.parametrize("kind", [uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam])
def test_counters_are_exact_when_everything_is_feasible(kind: Any) -> None:
    """Layer h holds min(B, k^h) paths; each scores m actions and expands k of them."""
    task, m = TEMPLATES["free"].task, 4
    trace = uc.Trace.from_members(np.random.default_rng(1).normal(0, 1, (3, 6)))
    full = 0
    for depth in (1, 2, 3, 6):
        for top_k in (1, 2, 3, 4):
            for width in (top_k, 5, 16, 64):
                policy = kind(depth=depth, width=max(width, top_k), top_k=top_k, risk=0.25, order="score")
                plan = uc.search(task, Step(0.0), trace, policy, engine="python")
                held = sum(min(policy.width, top_k**h) for h in range(depth))
                assert plan.expansions == top_k * held
                assert plan.action_scores == m * held
                if depth > 1 and policy.width <= top_k:
                    full += 1  # full from the second layer on: the bounds are met with equality
                    assert plan.expansions == top_k * (1 + policy.width * (depth - 1))
                    assert plan.action_scores == m * (1 + policy.width * (depth - 1))
    assert full >= 12


@settings(max_examples=some(300))
@given(seed=SEEDS, case=st.sampled_from(CASES))
def test_counters_never_exceed_their_bounds(seed: int, case: tuple[str, str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    kind = [uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam][int(rng.integers(0, 3))]
    top_k = int(rng.integers(1, 7))
    depth, width = int(rng.integers(1, 5)), int(rng.integers(top_k, 10))
    plan = problem.search(kind(depth=depth, width=width, top_k=top_k, mode=case[1], risk=0.5, spread="std"))
    m = len(problem.task.actions)
    k = min(top_k, m)
    assert plan.expansions <= k * (1 + width * (depth - 1))
    assert plan.action_scores <= m * (1 + width * (depth - 1))


# -------------------------------------------------------------------- Proposition 2: retained-proxy regret


@settings(max_examples=some(250))
@given(
    seed=SEEDS,
    case=st.sampled_from(CASES),
    beta=st.floats(0.0, 1.0),
    above=st.floats(0.0, 0.5),
    eps_c=st.floats(0.0, 2.0),
)
def test_retained_proxy_regret(seed: int, case: tuple[str, str], beta: float, above: float, eps_c: float) -> None:
    """R(chosen) >= R(q) - (lam + beta) U(q) - eps_r - (lam + beta) eps_u - 2 eps_c for every feasible q."""
    lam = beta + above
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    policy = uc.UCBeam(
        depth=3, width=int(rng.integers(2, 8)), top_k=int(rng.integers(1, 4)), mode=case[1], risk=lam, spread="std",
        order="score",
    )  # fmt: skip
    plan = problem.search(policy)
    if not plan.found:
        return
    retained = {row.path: row for row in plan.first_actions if row.retained}
    # The worst truth that calibration allows: the chosen path earns as little as it may, the others as much.
    truth = {
        path: row.reward + (-1.0 if path == plan.path else rng.uniform(-1.0, 1.0) if rng.integers(0, 2) else 1.0)
        * (beta * row.uncertainty + eps_c)
        for path, row in retained.items()
    }  # fmt: skip
    everything = problem.enumerate(policy)
    actions = plan.actions
    for _ in range(20):
        other = everything.paths[int(rng.integers(0, len(everything.paths)))]
        path = tuple(actions[i] for i in other.actions)
        reward = truth.get(path, other.reward + float(rng.normal(0, 5)))
        proxy = list(retained.values())[int(rng.integers(0, len(retained)))]
        eps_r = max(0.0, reward - truth[proxy.path])
        eps_u = max(0.0, proxy.uncertainty - other.uncertainty)
        floor = reward - (lam + beta) * (other.uncertainty + eps_u) - eps_r - 2.0 * eps_c
        assert truth[plan.path] >= floor - 1e-9 * (1.0 + abs(floor))


# -------------------------------------------------------------------- Theorem 3: collapse and separation


def one_step_greedy(trace: uc.Trace, h: int, risk: float, spread: str) -> set[float]:
    """Actions of the clock that maximise q - risk * u at step h, ties included."""
    outcomes, weights = trace.members[0, :, h, 0].tolist(), trace.weights[0].tolist()
    mean = float(trace.mean[0, h, 0])
    scores = {}
    for a in (-1.0, 0.0, 1.0):
        _, u = spread_of([a * y - 0.05 * abs(a) for y in outcomes], weights, spread)
        scores[a] = a * mean - 0.05 * abs(a) - risk * u
    best = max(scores.values())
    return {a for a, s in scores.items() if s >= best - 1e-12 * (1.0 + abs(best))}


@pytest.mark.parametrize("spread", ["variance", "std", "downside"])
def test_exact_search_collapses_to_one_step_when_actions_do_not_matter_later(spread: Any) -> None:
    rng = np.random.default_rng(3)
    active = 0
    for _ in range(150):
        trace = uc.Trace.from_members(np.round(rng.normal(0.1, 1, (4, 5)), 2))
        risk = float(rng.choice([0.0, 0.25, 1.0]))
        policy = uc.Exact(depth=int(rng.integers(1, 6)), risk=risk, spread=spread)
        plan = uc.search(TEMPLATES["clock"].task, Clock(0.0), trace, policy, engine="python")
        assert plan.proved
        for h, action in enumerate(plan.path):
            assert action in one_step_greedy(trace, h, risk, spread)
        active += plan.action not in one_step_greedy(trace, 0, 0.0, spread)
    assert active > 10  # the penalty decided some of them


def test_a_beam_without_uncertainty_is_greedy_when_actions_do_not_matter_later() -> None:
    rng = np.random.default_rng(4)
    for _ in range(150):
        trace = uc.Trace.from_members(np.round(rng.normal(0, 1, (4, 5)), 2))
        policy = uc.UCBeam(depth=5, width=int(rng.integers(1, 9)), top_k=int(rng.integers(1, 4)), risk=0.0)
        plan = uc.search(TEMPLATES["clock"].task, Clock(0.0), trace, policy, engine="python")
        for h, action in enumerate(plan.path):
            assert action in one_step_greedy(trace, h, 0.0, "std")


class Gate(NamedTuple):
    t: float
    open: float


class GateParams(NamedTuple):
    now: float  # what closing (action 0) earns at once
    later: float  # what an open gate lets through one step later, per unit of the outcome


def gate_feasible(s, a, p):
    return a == 0.0 or s.t == 0.0 or (s.t == 1.0 and s.open == 1.0)


def gate_step(s, a, y, p):
    return Gate(s.t + 1.0, a if s.t == 0.0 else 0.0)


def gate_reward(s, a, y, p):
    if s.t == 0.0:
        return p.now if a == 0.0 else 0.0
    return p.later * y if a == 1.0 else 0.0


def gate_fallback(s, p):
    return 0.0


gate = uc.Task(
    name="gate", state=Gate, actions=[0.0, 1.0], params=GateParams(1.0, 2.0), feasible=gate_feasible, step=gate_step,
    reward=gate_reward, fallback=gate_fallback,
)  # fmt: skip


def test_delayed_feasible_sets_separate_exact_search_from_one_step() -> None:
    """g(a-) - g(a+) = now, V(a+) - V(a-) = later * (1 - risk * 0.5): opening wins by exactly the difference."""
    rng = np.random.default_rng(5)
    trace = uc.Trace.from_members([[1.0, 0.5, 1.0], [1.0, 1.5, 1.0]])  # mean 1, deviation 0.5 at step 1
    opened = closed = 0
    for _ in range(200):
        delta, later = (float(x) for x in 0.125 * rng.integers(0, 40, 2))
        risk = float(rng.choice([0.0, 0.25, 0.5]))
        gain = later * (1.0 - risk * 0.5)
        if delta == gain:
            continue
        params = GateParams(delta, later)
        for depth in (2, 3):
            policies: list[Any] = [
                uc.Exact(depth=depth, risk=risk, every_action=True), uc.UCBeam(depth=depth, width=4, risk=risk),
                uc.CertifiedBeam(depth=depth, width=2, risk=risk), uc.MCTS(depth=depth, risk=risk, simulations=30),
            ]  # fmt: skip
            for policy in policies:
                plan = uc.search(gate, Gate(0.0, 0.0), trace, policy, params=params, engine="python")
                minus, plus = plan.first_actions
                assert minus.retained
                assert plus.retained
                assert plus.score - minus.score == gain - delta
                assert plan.action == (1.0 if gain > delta else 0.0)
        myopic = uc.search(gate, Gate(0.0, 0.0), trace, uc.Exact(depth=1, risk=risk), params=params, engine="python")
        assert myopic.action == 0.0  # one step earns `delta` or nothing; closing is never worse
        opened, closed = opened + (gain > delta), closed + (gain < delta)
    assert min(opened, closed) > 40


# -------------------------------------------------------------------- Theorem 4: retained-prefix margin

WINDOWS, DEPTH, EPS_M, RISK = 10_000, 4, 0.05, 0.5


def exact_values(score: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Q (W, 3), -inf outside A, from the enumerated paths of every (held, age, longest) and g (W, d, 3)."""
    q = np.full((score.shape[0], 3), -np.inf)
    blank = uc.Trace.from_scores(np.zeros((DEPTH, 3)), np.zeros((DEPTH, 3)), np.zeros(DEPTH))
    for key in sorted({tuple(k) for k in keys.tolist()}):
        held, age, longest = key
        found = enumerate_paths(
            TEMPLATES["position"].task, Position(held, age), blank, depth=DEPTH, mode="scores",
            params=PositionParams(longest),
        )  # fmt: skip
        paths = np.array([p.actions for p in found.paths])  # (P, d)
        rows = np.flatnonzero((keys == np.array(key)).all(axis=1))
        total = np.zeros((rows.size, paths.shape[0]))
        for h in range(DEPTH):
            total += score[rows, h][:, paths[:, h]]
        for a in range(3):
            mine = paths[:, 0] == a
            if mine.any():
                q[rows, a] = total[:, mine].max(axis=1)
    return q


@pytest.mark.parametrize(
    "kind", [pytest.param(uc.CertifiedBeam, marks=pytest.mark.slow), pytest.param(uc.UCBeam, marks=pytest.mark.slow)]
)
def test_retained_prefix_margins_have_no_counterexample(kind: Any) -> None:
    """10,000 searches per kind on scores that are wrong by up to eps_m per path, against enumerated exact values."""
    rng = np.random.default_rng([4, kind is uc.UCBeam])
    q, u = rng.normal(0, 1, (WINDOWS, DEPTH, 3)), rng.random((WINDOWS, DEPTH, 3))
    wrong = q + rng.uniform(-EPS_M / DEPTH, EPS_M / DEPTH, q.shape)
    states, params = TEMPLATES["position"].windows(rng, WINDOWS)
    trace = uc.Trace.from_scores(wrong, u, np.zeros((WINDOWS, DEPTH)))
    policy = kind(depth=DEPTH, width=3, top_k=2, risk=RISK, mode="scores", order="score")
    panel = uc.search_panel(
        TEMPLATES["position"].task, states, trace, policy, params=params, engine="compiled", keep_paths=True
    )
    keys = np.column_stack([np.array([tuple(s) for s in states]), params.longest])
    g = q - RISK * u
    exact = exact_values(g, keys)
    retained = panel.outputs.paths[:, :, 0] >= 0
    assert not (retained & np.isinf(exact)).any()
    # True score of the retained path of every first action, and eps_a over the retained ones.
    truth = np.full((WINDOWS, 3), -np.inf)
    for w, a in np.argwhere(retained):
        path = panel.outputs.paths[w, a]
        truth[w, a] = sum(g[w, h, path[h]] for h in range(DEPTH))
    slack = np.where(retained, np.where(retained, exact, 0.0) - np.where(retained, truth, 0.0), 0.0)
    assert slack.min() >= -1e-9
    eps_a = np.maximum(slack.max(axis=1), 0.0)
    found = panel.outputs.table[:, :, 0]
    some = retained.any(axis=1)
    chosen = panel.outputs.out_i[:, 1]
    assert (chosen[some] == np.where(retained, found, -np.inf)[some].argmax(axis=1)).all()
    premises = flips = 0
    for plus in range(3):
        for minus in range(3):
            if plus == minus:
                continue
            both = retained[:, plus] & retained[:, minus]
            margin = np.where(both, exact[:, plus], 0.0) - np.where(both, exact[:, minus], 0.0)
            ahead = np.where(both, found[:, plus], 0.0) - np.where(both, found[:, minus], 0.0)
            premise = both & (margin > 2.0 * (eps_a + EPS_M))
            assert (ahead[premise] > 0.0).all()
            assert (chosen[premise] != minus).all()
            # The proof gives more: the gap shrinks by no more than eps_a and twice eps_m.
            assert (ahead[both] >= (margin - eps_a - 2.0 * EPS_M)[both] - 1e-9).all()
            premises += int(premise.sum())
            flips += int((both & (margin > 0.0) & (ahead < 0.0)).sum())
    assert premises > WINDOWS // 4
    assert flips > 20  # without the margin the order does flip


def test_retained_prefix_margins_of_beams_with_enumerated_values() -> None:
    """At least 2,000 beams on rules with dead ends, ramps and pipelines; model error 0."""
    rng = np.random.default_rng(6)
    cases = [
        ("battery", "mean"),
        ("stock", "mean"),
        ("position", "mean"),
        ("tank", "mean"),
        ("maze", "mean"),
        ("pack", "mean"),
    ]
    searched = premises = 0
    for turn in range(some(2600)):
        name, mode = cases[turn % len(cases)]
        problem = random_problem(rng, name, mode, horizon=3, members=3, gaps=False)
        kind = uc.UCBeam if rng.integers(0, 2) else uc.CertifiedBeam
        top_k = int(rng.integers(2, 5))
        policy = kind(
            depth=3,
            width=top_k + int(rng.integers(0, 2)),
            top_k=top_k,
            risk=float(rng.choice([0.0, 0.25, 1.0])),
            order="score",
        )
        plan, found = problem.search(policy), problem.enumerate(policy)
        if not plan.found:
            continue
        searched += 1
        rows = {i: row.score for i, row in enumerate(plan.first_actions) if row.retained}
        eps_a = max(max(0.0, found.values[i] - score) for i, score in rows.items())
        for plus in rows:
            assert rows[plus] <= found.values[plus] + found.tau
            for minus in rows:
                if found.values[plus] - found.values[minus] > 2.0 * eps_a + found.tau:
                    premises += 1
                    assert rows[plus] > rows[minus]
                    assert plan.action_index != minus
    assert searched >= some(2000)
    assert premises > some(1000)
