"""What a certificate claims, against brute force: 20,000 random small windows, dead ends, ties and depth 1 included
(a sixth of them in `make test`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.conformance.test_engines import random_panel
from tests.kit.brute import Enumeration, enumerate_paths
from tests.kit.counts import some
from tests.kit.problems import random_problem
from ucsearch.certificate.api import _select

# (template, mode, engine, windows, kind). "compiled" runs the text of kernels, which is slower than the plain engine.
CASES = [
    ("battery", "mean", "compiled", 1000, "oracle"),
    ("battery", "mean", "python", 6000, "oracle"),
    ("stock", "mean", "compiled", 1000, "bound"),
    ("stock", "mean", "python", 6000, "bound"),
    ("maze", "mean", "python", 2400, "oracle"),
    ("pack", "mean", "python", 1200, "oracle"),
    ("position", "scores", "python", 1200, "bound"),
    ("clock", "mean", "python", 800, "oracle"),
    ("maze", "members", "python", 600, "oracle"),
]
ORDERS = {"stock": "bound"}


def random_policy(rng: np.random.Generator, name: str, mode: str, horizon: int) -> Any:
    kind = rng.choice([uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam, uc.ConstrainedBeam], p=[0.4, 0.1, 0.3, 0.2])
    top_k = int(rng.integers(1, 4))
    extra: dict[str, Any] = {}
    if kind is uc.CertifiedBeam:
        extra = dict(protect=bool(rng.integers(0, 2)))
    if kind is uc.ConstrainedBeam:
        extra = dict(near_equal=float(rng.choice([0.0, 0.5, 5.0])), band=float(rng.choice([0.0, 0.3])))
    return kind(
        depth=int(rng.integers(1, min(horizon, 3) + 1)), width=int(rng.integers(top_k, 6)), top_k=top_k, mode=mode,
        risk=float(rng.choice([0.0, 0.25, 1.0])), order=ORDERS.get(name, "auto"), **extra,
    )  # fmt: skip


def classes(e: Enumeration) -> dict[int, float]:
    """Q(a) of every a in A that stands for itself."""
    return {a: q for a, q in e.values.items() if e.same_as[a] == a}


def check(d: uc.Decision, e: Enumeration, e0: Enumeration) -> None:
    c = d.certificate
    assert c is not None
    values, tau = classes(e), e.tau + c.tau
    best = max(values.values(), default=-math.inf)
    assert (c.plan.status is uc.Status.DEAD_END) <= (not values)
    for r in c.rivals:
        if r.index in values:
            assert r.upper >= values[r.index] - tau
            assert not r.score > values[r.index] + tau
    assert set(values) <= {r.index for r in c.rivals}
    if c.kind == "oracle":
        # Equal effects up to rounding may count as two; both are then in A.
        assert {r.index for r in c.rivals} <= e.alive
        assert c.sole_action == (len(c.rivals) == 1 and c.action is not None)
    if c.certificate_pass:
        assert values[c.action_index] >= best - tau
    if c.unique:
        assert all(q < values[c.action_index] for a, q in values.items() if a != c.action_index)
    if c.action_index >= 0:
        assert best - values[c.action_index] <= c.regret_bound + tau
    if c.risk_active:
        zero = classes(e0)
        top = max(zero.values())
        for a, q in zero.items():
            if q >= top - e0.tau:
                assert values[a] < values[c.action_index]
    if c.kind == "oracle" and c.certificate_pass and values:
        zero = classes(e0)
        top = max(zero.values())
        gap = best - max(values[a] for a, q in zero.items() if q >= top - e0.tau)
        if abs(gap) > 10 * tau and not any(0 < abs(q - top) <= 10 * e0.tau for q in zero.values()):
            assert c.risk_active == (gap > tau)
            assert math.isclose(c.risk_gap, gap, abs_tol=10 * tau)
    assert d.released == all(row.passed for row in d.rows)
    if d.released:
        assert c.certificate_pass
        assert d.action == c.plan.actions[c.action_index]
        assert c.action_index in e.alive
    else:
        assert d.outcome in (uc.Outcome.FALLBACK, uc.Outcome.HOLD)
        assert d.action == (d.fallback_action if d.outcome is uc.Outcome.FALLBACK else None)


def test_twenty_thousand_cases() -> None:
    assert sum(case[3] for case in CASES) >= 20_000


@pytest.mark.parametrize(("name", "mode", "engine", "windows", "kind"), CASES)
def test_a_pass_implies_optimality_and_a_release_bounds_regret(
    name: str, mode: str, engine: Any, windows: int, kind: str
) -> None:
    rng = np.random.default_rng([windows, *map(ord, name + mode)])
    group, seen = 20, {"pass": 0, "fail": 0, "released": 0, "sole": 0, "dead": 0, "risk": 0, "near": 0}
    for _ in range(some(windows) // group):
        panel = random_panel(rng, name, mode, group)
        policy = random_policy(rng, name, mode, panel["traces"].horizon)
        gate = uc.Gate(risk_active=bool(rng.integers(0, 4) == 0))
        result = uc.decide_panel(
            panel["task"], panel["states"], panel["traces"], policy, params=panel["params"], actions=panel["actions"],
            run=uc.Run(engine=engine, threads=1), gate=gate,
            proof=uc.Proof(kind="oracle" if kind == "oracle" or isinstance(policy, uc.ConstrainedBeam) else "auto"),
        )  # fmt: skip
        for w in range(group):
            params = None
            if panel["params"] is not None:
                params = panel["task"].params_layout.build(result.certified.plan.inputs.params[w].tolist())
            common = dict(
                depth=policy.depth, mode=mode, params=params, actions=panel["actions"][w].tolist(),
                spread=policy.spread,
            )  # fmt: skip
            trace = panel["traces"].window(w)
            e = enumerate_paths(panel["task"], panel["states"][w], trace, risk=policy.risk, **common)
            e0 = e if policy.risk == 0.0 else enumerate_paths(panel["task"], panel["states"][w], trace, **common)
            d = result[w]
            check(d, e, e0)
            c = d.certificate
            assert c is not None
            seen["pass" if c.certificate_pass else "fail"] += 1
            seen["released"] += d.released
            seen["sole"] += c.sole_action
            seen["dead"] += not e.values
            seen["risk"] += c.risk_active
    assert seen["pass"] > 0
    assert seen["fail"] > 0 or name in ("clock", "position")
    if name == "maze":
        assert seen["sole"] > 0
        assert seen["dead"] > 0


def test_small_changes_of_retained_scores_do_not_change_the_selection() -> None:
    rng = np.random.default_rng(3)
    for _ in range(2000):
        m = int(rng.integers(2, 7))
        values = rng.normal(0, 1, (1, m, 3))
        retained = rng.random((1, m)) < 0.8
        values[~retained] = np.nan
        before = int(_select(values, retained)[0])
        scores = np.sort(values[0, :, 0][retained[0]])
        if scores.size < 2:
            continue
        half = (scores[-1] - scores[-2]) / 2
        changed = values.copy()
        changed[0, :, 0] += rng.uniform(-half, half, m) * 0.999
        assert int(_select(changed, retained)[0]) == before


def test_a_gate_without_conditions_refuses() -> None:
    rng = np.random.default_rng(0)
    panel = random_panel(rng, "clock", "mean", 3)
    gate = uc.Gate(certificate=False)
    policy = uc.UCBeam(depth=1, width=4)
    result = uc.decide_panel(
        panel["task"], panel["states"], panel["traces"], policy, gate=gate, run=uc.Run(engine="python")
    )
    assert not any(result[w].released for w in range(3))


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_an_exact_policy_is_its_own_proof(mode: str) -> None:
    """The claims are those of a wide beam, and only what the policy did not do itself is counted on top."""
    for seed in range(10):
        problem = random_problem(np.random.default_rng(seed), "stock", mode)
        given: dict[str, Any] = dict(
            params=problem.params, actions=problem.actions, run=uc.Run(engine="python"), proof=uc.Proof(kind="bound")
        )
        own = uc.certify(problem.task, problem.state, problem.trace, uc.Exact(depth=3, mode=mode), **given)
        beam = uc.UCBeam(depth=3, width=64, mode=mode)
        other = uc.certify(problem.task, problem.state, problem.trace, beam, **given)
        if mode == "mean":
            assert own.counters["oracle_nodes"] == 0
        assert own.counters["oracle_nodes"] <= other.counters["oracle_nodes"]
        assert (own.action, own.certificate_pass, own.regret_bound) == (
            other.action,
            other.certificate_pass,
            other.regret_bound,
        )
        assert [r.upper for r in own.rivals] == [r.upper for r in other.rivals]
