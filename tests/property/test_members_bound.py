"""Bounds for members mode never lie below what brute force finds, and are far better than perfect information alone."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import some
from tests.kit.templates import TEMPLATES
from ucsearch.certificate.members.bound import MembersBounds, members_bounds
from ucsearch.certificate.members.dual import admissible_weights, score_of
from ucsearch.engine import PanelPlan
from ucsearch.spreads import NUMBERS, SPREADS

# ---------------------------------------------------------------- independent arithmetic

TAIL = 0.2  # share of cvar
MEASURES = {name: (number, TAIL) for name, number in NUMBERS.items()}
TRIALS = {"cvar": 20_000}  # cases; 4,000 of the others


def spread_of(values: np.ndarray, p: np.ndarray, kind: str) -> float:
    mean = math.fsum(p * values)
    off = values - mean
    if kind == "cvar":
        left, total = TAIL, 0.0
        for x, w in sorted(zip(values.tolist(), p.tolist(), strict=True)):
            total, left = total + min(w, left) * x, left - min(w, left)
        return max(0.0, mean - (total + left * float(values.max())) / TAIL)
    if kind == "downside":
        off = np.minimum(off, 0.0)
    square = math.fsum(p * off * off)
    return square if kind == "variance" else math.sqrt(square)


def brute_force(plan: PanelPlan, w: int, kind: str) -> list[float]:
    """Best S of every first action by trying all plans; -inf where there is none."""
    task, inputs, s = plan.task, plan.inputs, plan.settings
    p = None
    if task.params_layout is not None:
        p = task.params_layout.build(inputs.params[w if len(inputs.params) > 1 else 0].tolist())
    actions = inputs.actions[w if len(inputs.actions) > 1 else 0].tolist()
    share = inputs.weights[w if len(inputs.weights) > 1 else 0]
    members = inputs.members[w].tolist()
    out = []

    def outcome(y: list[float]) -> Any:
        return y[0] if task.outcome is None else task.outcome(*y)

    def explore(states: list[Any], returns: list[float], h: int, first: int) -> float:
        if h == s.depth:
            totals = np.array(returns)
            if task.terminal is not None:
                totals = totals + s.discount**h * np.array([task.terminal(x, p) for x in states])
            return math.fsum(share * totals) - s.risk * spread_of(totals, share, kind)
        best = -math.inf
        for i, a in enumerate(actions):
            if a != a or (h == 0 and i != first) or not all(task.feasible(x, a, p) for x in states):
                continue
            ys = [outcome(y[h]) for y in members]
            gains = [s.discount**h * task.reward(x, a, y, p) for x, y in zip(states, ys, strict=True)]
            after = [task.step(x, a, y, p) for x, y in zip(states, ys, strict=True)]
            best = max(best, explore(after, [r + g for r, g in zip(returns, gains, strict=True)], h + 1, first))
        return best

    start = plan.layout.build(inputs.states[w].tolist())
    for first in range(len(actions)):
        out.append(explore([start] * len(members), [0.0] * len(members), 0, first))
    return out


# ---------------------------------------------------------------- weights


def random_admissible(rng: np.random.Generator, p: np.ndarray, lam: float, kind: str) -> tuple[np.ndarray, float]:
    """Any admissible weights, tight nowhere in particular, with their constant."""
    if kind == "cvar":
        xi = rng.random(p.size)
        xi = xi / (p @ xi)
        most = max(1e-9, float((xi - 1.0).max()))
        return 1.0 + lam * (xi - 1.0) * min(1.0, (1.0 / TAIL - 1.0) / most), 0.0
    if kind == "downside":
        xi = rng.random(p.size) * (rng.random(p.size) < 0.7)
        xi = xi * rng.random() / max(math.sqrt(float(p @ xi**2)), 1e-9)
        off = lam * (xi - p @ xi)
        return 1.0 + off * min(1.0, 1.0 / max(-off.min(), 1e-9)), 0.0
    w = rng.exponential(1.0, p.size) * (rng.random(p.size) < 0.7) + 1e-3
    w = w / (p @ w)
    wide = math.sqrt(float(p @ (w - 1.0) ** 2))
    if kind == "std":
        return 1.0 + (w - 1.0) * min(1.0, lam / max(wide, 1e-9)), 0.0
    return w, wide**2 / (4.0 * lam)


@pytest.mark.parametrize("kind", sorted(SPREADS))
def test_score_never_exceeds_the_reweighted_mean(kind: str) -> None:
    rng = np.random.default_rng([7, NUMBERS[kind]])
    tight = 0
    for _ in range(some(TRIALS.get(kind, 4000))):
        size = int(rng.integers(1, 9))
        p = rng.random(size) + 0.05
        p /= p.sum()
        lam = min(float(rng.choice([0.05, 0.5, 1.0, 3.0])), 1.0 if kind == "cvar" else 3.0)
        seen = rng.normal(0.0, rng.choice([1e-16, 0.1, 1.0, 30.0]), size) + rng.choice([0.0, 0.8, 1000.0])
        if rng.random() < 0.2:
            seen = np.round(seen)  # ties
        w = np.empty(size)
        c = admissible_weights(seen, p, lam, MEASURES[kind], w)
        assert (w >= 0.0).all()
        assert p @ w == pytest.approx(1.0, abs=1e-12)
        if kind == "std":
            assert math.sqrt(p @ (w - 1.0) ** 2) <= lam * (1.0 + 1e-12)
        other, constant = random_admissible(rng, p, lam, kind)
        for returns in (seen, rng.normal(0.0, 5.0, size), seen + rng.normal(0.0, 1.0, size)):
            score = math.fsum(p * returns) - lam * spread_of(returns, p, kind)
            slack = 1e-9 * (1.0 + np.abs(returns).max())
            assert score <= p @ (w * returns) + c + slack
            assert score <= p @ (other * returns) + constant + slack
            assert score == pytest.approx(score_of(returns, p, lam, MEASURES[kind]), rel=1e-9, abs=1e-9)
        score = math.fsum(p * seen) - lam * spread_of(seen, p, kind)
        tight += abs(p @ (w * seen) + c - score) <= 1e-9 * (1.0 + np.abs(seen).max())
    assert tight > some(1000)  # wherever no weight had to be clipped


def test_weights_are_one_without_risk_or_spread() -> None:
    w = np.empty(3)
    p = np.full(3, 1.0 / 3.0)
    for kind in MEASURES.values():
        assert admissible_weights(np.array([1.0, 5.0, 9.0]), p, 0.0, kind, w) == 0.0
        assert w.tolist() == [1.0, 1.0, 1.0]
        assert admissible_weights(np.array([4.0, 4.0, 4.0]), p, 0.7, kind, w) == 0.0
        assert w.tolist() == [1.0, 1.0, 1.0]


# ---------------------------------------------------------------- bounds against brute force


def random_plan(rng: np.random.Generator, name: str, count: int, depth: int, members: int) -> tuple[PanelPlan, str]:
    """A cheap search in plain Python: it makes the arrays, and its path is an incumbent."""
    template = TEMPLATES[name]
    states, params = template.windows(rng, count)
    shape = (count, members, depth) + ((template.fields,) if template.fields > 1 else ())
    weights = None if rng.integers(0, 2) else 10.0 ** -rng.uniform(0.0, rng.choice([1.0, 9.0]), members)
    scale = float(rng.choice([1.0, 1e5])) if name == "battery" else 1.0  # prices: the reward's unit
    trace = uc.Trace.from_members(
        scale * template.outcomes(rng, shape),
        weights,
        fields=template.fields if template.fields > 1 else None,
        normalise=True,
    )
    actions = np.tile(template.task.action_array, (count, 1))
    if rng.integers(0, 2):
        actions[rng.random(actions.shape) < 0.15] = np.nan
    kind = str(rng.choice(sorted(SPREADS)))
    policy = uc.UCBeam(
        depth=depth, width=2, mode="members", spread=kind, order="score", discount=float(rng.choice([1.0, 0.9])),
        risk=float(rng.choice([0.0, 0.2, 0.5, 1.0] if kind in ("downside", "cvar") else [0.0, 0.2, 1.0, 2.5])),
    )  # fmt: skip
    plan = uc.search_panel(template.task, states, trace, policy, params=params, actions=actions, engine="python")
    return plan, kind


def bounds_of(plan: PanelPlan, **options: Any) -> MembersBounds:
    incumbent = options.pop("incumbent", plan.outputs.path)
    return members_bounds(plan.task, plan.layout, plan.settings, plan.inputs, incumbent, **options)


GROUPS = [("stock", 120), ("tank", 90), ("maze", 120), ("pack", 60), ("battery", 60), ("position", 60)]


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        *((n, g // (6 if n == "stock" else 2)) for n, g in GROUPS),
        *(pytest.param(n, g, marks=pytest.mark.slow) for n, g in GROUPS),
    ],
)
def test_no_plan_beats_its_bound(name: str, groups: int) -> None:
    rng = np.random.default_rng([11, groups, *map(ord, name)])
    checked = dead = polished = tight = 0
    for _ in range(groups):
        shallow = name in ("pack", "battery") or (name == "stock" and groups < 120)  # all plans of stock are many
        depth = int(rng.integers(1, 4 if shallow else 5))
        plan, kind = random_plan(rng, name, 8, depth, int(rng.integers(1, 6)))
        incumbent = plan.outputs.path
        if rng.random() < 0.3:  # anything goes: it is not trusted
            incumbent = rng.integers(-1, plan.inputs.actions.shape[1], incumbent.shape)
        steps = int(rng.choice([1, 7, 150]))
        bound = bounds_of(plan, incumbent=incumbent, steps=steps, few_plans=0, engine="python")
        exact = bounds_of(plan, few_plans=10**8, engine="python")
        assert exact.exact.all()
        assert not bound.exact[bound.nodes > 0].any()
        for w in range(len(plan)):
            for a, best in enumerate(brute_force(plan, w, kind)):
                slack = 1e-9 * (1.0 + abs(best)) if best > -math.inf else 0.0
                assert bound.upper[w, a] >= best - slack, (w, a)
                assert exact.upper[w, a] == best or abs(exact.upper[w, a] - best) <= slack
                assert bound.upper[w, a] <= bound.perfect[w, a]
                checked += best > -math.inf
                dead += best == -math.inf and not math.isnan(plan.inputs.actions[w, a])
                if best > -math.inf and steps == 150:
                    polished += 1
                    tight += bound.upper[w, a] - best <= 1e-3 * (1.0 + abs(best))
    assert checked > 8 * groups
    assert tight > 0.5 * polished > 0
    assert dead > 100 or name == "position"


def test_minus_infinity_is_a_proof() -> None:
    """Two members that can both go on after 2, but only with different actions: the relaxation cannot see that."""
    task = TEMPLATES["stock"].task
    states = [task.state(4.0, (0.0, 0.0), 4.0)]
    params = task.params._replace(capacity=8.0, ramp=2.0)
    # After 2 the second order must be within 0..4; after 4 within 2..6, for which member 0, which sells nothing, has no
    # room. After 2 and 2 more, member 0 is full with 8; the third order may be 0, and so on.
    trace = uc.Trace.from_members(np.array([[[0.0, 0.0], [4.0, 0.0]]]))
    plan = uc.search_panel(
        task, states, trace, uc.UCBeam(depth=2, width=4, mode="members", risk=0.5), params=params, engine="python"
    )
    for few in (0, 4096):
        found = bounds_of(plan, few_plans=few, engine="python")
        assert found.upper[0, 0] == -math.inf  # out of the ramp
        assert np.isfinite(found.upper[0, 1])
        assert found.upper[0, 2] == -math.inf  # allowed now, but member 0 cannot go on
        assert found.upper[0, 3] == -math.inf  # more than the capacity
    assert plan.outputs.flags[0].tolist()[2] & 1


def test_no_common_plan_is_seen_by_enumeration_only() -> None:
    task = parting
    trace = uc.Trace.from_members(np.array([[[1.0, 0.0], [-1.0, 0.0]]]))
    plan = uc.search_panel(
        task, [Fork(0.0)], trace, uc.UCBeam(depth=2, width=4, mode="members", risk=0.5), engine="python"
    )
    assert plan.outputs.out_i[0, 1] == -1
    relaxed, exact = bounds_of(plan, few_plans=0, engine="python"), bounds_of(plan, engine="python")
    assert np.isfinite(relaxed.upper).all()
    assert np.isneginf(exact.upper).all()
    assert np.isfinite(exact.perfect).all()


class Fork(NamedTuple):
    side: float


# The outcome decides which of two actions remains; members on different sides have none in common.
parting = uc.Task(
    name="parting", state=Fork, actions=[-1.0, 1.0], feasible=lambda s, a, p: s.side == 0.0 or s.side == a,
    step=lambda s, a, y, p: Fork(y), reward=lambda s, a, y, p: a, fallback=lambda s, p: 1.0,
)  # fmt: skip


# ---------------------------------------------------------------- how much the penalties buy


def stock_plan(seed: int, windows: int, members: int, depth: int, **settings: Any) -> PanelPlan:
    rng = np.random.default_rng(seed)
    states, params = TEMPLATES["stock"].windows(rng, windows)
    trace = uc.Trace.from_members(0.5 * rng.integers(0, 13, (windows, members, depth)))
    policy = uc.ParetoBeam(depth=depth, width=24, mode="members", order="bound", **settings)
    return uc.search_panel(TEMPLATES["stock"].task, states, trace, policy, params=params, engine="python")


@pytest.mark.parametrize("windows", [12, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kind", "risk"),
    [("downside", 0.5), *(pytest.param(k, r, marks=pytest.mark.slow) for k, r in (("std", 0.5), ("variance", 0.005)))],
)
def test_penalties_eliminate_most_rivals(kind: str, risk: float, windows: int) -> None:
    plan = stock_plan(3, windows, 10, 7, spread=kind, risk=risk)
    found = bounds_of(plan, engine="python")
    exact = bounds_of(plan, engine="python", few_plans=1 << 20).upper
    assert not found.exact.any()
    best = exact.max(axis=1, keepdims=True)
    known = np.isfinite(exact)
    rival = known & (exact < best - 1e-9 * (1.0 + np.abs(best)))
    assert rival.sum() >= windows
    assert (found.upper[known] >= exact[known] - 1e-9 * (1.0 + np.abs(exact[known]))).all()
    penalised, plain = (float((x < best)[rival].mean()) for x in (found.upper, found.perfect))
    assert penalised >= 0.9
    assert plain <= 0.3
    gaps = (found.upper[rival] - exact[rival]) / np.abs(exact[rival])
    assert np.median(gaps) <= 0.002
    assert np.mean(gaps) <= 0.01


def tank_plan(seed: int, windows: int, members: int, depth: int) -> PanelPlan:
    """Terminal value, discount, two-field outcomes."""
    rng = np.random.default_rng(seed)
    states, params = TEMPLATES["tank"].windows(rng, windows)
    trace = uc.Trace.from_members(TEMPLATES["tank"].outcomes(rng, (windows, members, depth, 2)), fields=2)
    policy = uc.UCBeam(depth=depth, width=16, mode="members", spread="std", risk=0.4, discount=0.95)
    return uc.search_panel(TEMPLATES["tank"].task, states, trace, policy, params=params, engine="python")


@pytest.mark.parametrize("name", ["stock", "tank"])
def test_more_steps_never_hurt(name: str) -> None:
    plan = stock_plan(5, 12, 8, 7, spread="std", risk=1.0) if name == "stock" else tank_plan(5, 12, 6, 7)
    one, all_of_them = bounds_of(plan, steps=1, engine="python"), bounds_of(plan, engine="python")
    assert not all_of_them.exact.any()
    assert (all_of_them.upper <= one.upper).all()
    own = plan.outputs.out_i[:, 1]
    found = np.flatnonzero(own >= 0)
    gap = (all_of_them.upper[found, own[found]] - plan.score[found]) / (1.0 + np.abs(plan.score[found]))
    assert (gap >= -1e-9).all()
    assert np.median(gap) <= 0.05


# ---------------------------------------------------------------- engines, batches, refusals


def assert_same_bytes(a: MembersBounds, b: MembersBounds) -> None:
    for name in ("upper", "perfect", "exact", "nodes", "fault"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name


@pytest.mark.parametrize("name", ["stock", "tank", pytest.param("risky", marks=pytest.mark.compiled)])
def test_compiled_equals_python_to_the_bit(name: str) -> None:
    rng = np.random.default_rng([13, *map(ord, name)])
    faults = unfinished = 0
    for _ in range(25):
        plan, _ = random_plan(rng, name, 6, int(rng.integers(1, 6)), int(rng.integers(1, 6)))
        options: dict[str, Any] = {
            "steps": 20, "few_plans": int(rng.choice([0, 4096])), "node_budget": int(rng.choice([15, 60, 100_000])),
        }  # fmt: skip
        fast = bounds_of(plan, engine="compiled", **options)
        assert_same_bytes(fast, bounds_of(plan, engine="python", **options))
        assert_same_bytes(fast, bounds_of(plan, engine="compiled", threads=2, **options))
        known = fast.fault[:, 0] != 0
        assert np.isnan(fast.upper[known]).all()
        spent = np.isnan(fast.upper).all(axis=1) & ~known
        assert (fast.nodes[spent] == options["node_budget"]).all()
        faults += int(known.sum())
        unfinished += int(spent.sum())
    assert unfinished > 0
    assert (faults > 0) == (name == "risky")


def test_members_in_any_order_and_windows_one_by_one() -> None:
    rng = np.random.default_rng(17)
    states, params = TEMPLATES["tank"].windows(rng, 5)
    members, weights = TEMPLATES["tank"].outcomes(rng, (5, 6, 6, 2)), rng.random(6) + 0.1
    policy = uc.UCBeam(depth=6, width=3, mode="members", spread="std", risk=0.7)

    def bounds(order: np.ndarray, rows: slice) -> MembersBounds:
        trace = uc.Trace.from_members(members[rows][:, order], weights[order], fields=2, normalise=True)
        part = type(params)(*(x[rows] for x in params))
        task = TEMPLATES["tank"].task
        return bounds_of(uc.search_panel(task, states[rows], trace, policy, params=part, engine="python"), few_plans=0)

    whole = bounds(np.arange(6), slice(0, 5))
    assert_same_bytes(whole, bounds(rng.permutation(6), slice(0, 5)))
    for w in range(5):
        assert bounds(np.arange(6), slice(w, w + 1)).upper.tobytes() == whole.upper[w].tobytes()
