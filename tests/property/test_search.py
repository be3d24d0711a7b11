"""Searches against exhaustive enumeration: optimality, feasibility, dead ends, duplicates, bounds."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ucsearch as uc
from tests.kit.brute import Enumeration, replay
from tests.kit.counts import some
from tests.kit.problems import Problem, random_problem
from tests.kit.templates import TEMPLATES
from ucsearch.engine.plain import exact as plain_exact
from ucsearch.engine.plain.beam import _nondominated, _retain
from ucsearch.engine.plain.outcome import Outcome
from ucsearch.engine.plain.window import Node
from ucsearch.policies import Keep

CASES = [
    ("battery", "mean"), ("battery", "members"), ("stock", "mean"), ("stock", "members"), ("position", "scores"),
    ("position", "mean"), ("tank", "mean"), ("tank", "members"), ("pack", "mean"), ("pack", "members"),
    ("maze", "mean"), ("maze", "members"), ("clock", "scores"), ("clock", "mean"), ("free", "mean"),
    ("free", "members"), ("followed", "members"),
]  # fmt: skip
BOUNDED = [("stock", "mean"), ("stock", "members"), ("free", "mean"), ("free", "members"), ("position", "scores")]
SEEDS = st.integers(0, 2**32 - 1)
WIDE = 5000  # more than any tree below has paths


def common(rng: np.random.Generator, mode: str, deepest: int = 3, **fixed: Any) -> dict[str, Any]:
    """Random settings that every policy takes."""
    chosen: dict[str, Any] = {
        "depth": int(rng.integers(1, deepest + 1)),
        "mode": mode,
        "risk": float(rng.choice([0.0, 0.25, 0.5, 1.0])),
        "spread": str(rng.choice(["variance", "std", "downside"])),
        "discount": float(rng.choice([1.0, 0.9])),
        "order": "score",
    }
    return {**chosen, **fixed}


def close(x: float, y: float, scale: float = 1.0) -> bool:
    return abs(x - y) <= 1e-9 * (1.0 + abs(scale))


def assert_optimal(plan: uc.Plan, found: Enumeration) -> None:
    """The plan's path is one of the enumerated, its numbers are that path's, and none is better."""
    assert plan.action_index in found.optimal_firsts()
    assert abs(plan.score - found.best) <= found.tau
    path = found.find(plan.outputs.path[0].tolist())
    assert path is not None
    assert abs(path.score - plan.score) <= found.tau
    if not plan.task.continuations:  # two of them may tie with different uncertainties
        assert close(path.reward, plan.reward, path.reward)
        assert close(path.uncertainty, plan.uncertainty, path.uncertainty)
    assert plan.score == plan.reward - plan.settings.risk * plan.uncertainty


def assert_answers_nothing(plan: uc.Plan, task: uc.Task) -> None:
    """No path: no action either, and a dead end is called one (continuations may end a path that F does not)."""
    allowed = {uc.Status.DEAD_END} if not task.continuations else {uc.Status.DEAD_END, uc.Status.SEARCH_EXHAUSTED}
    assert plan.status in allowed
    assert plan.action is None
    assert plan.path == ()
    assert math.isnan(plan.score)


# -------------------------------------------------------------------- wide beams


@pytest.mark.parametrize("kind", [uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam])
@settings(max_examples=some(250))
@given(seed=SEEDS, case=st.sampled_from(CASES))
def test_a_wide_enough_beam_is_enumeration(kind: Any, seed: int, case: tuple[str, str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    policy = kind(**common(rng, case[1]), width=WIDE, top_k=None)
    plan, found = problem.search(policy), problem.enumerate(policy)
    if not found.paths:
        assert_answers_nothing(plan, problem.task)
        return
    assert plan.status is uc.Status.FOUND
    assert_optimal(plan, found)
    for i, row in enumerate(plan.first_actions):
        assert row.feasible == (i in found.feasible)
        if row.stands_for:
            assert row.retained == (i in found.alive)
        if row.retained:
            assert abs(row.score - found.values[i]) <= found.tau


@settings(max_examples=some(150))
@given(seed=SEEDS, case=st.sampled_from(BOUNDED))
def test_a_wide_enough_beam_ordered_by_bound_is_enumeration(seed: int, case: tuple[str, str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    policy = uc.UCBeam(**common(rng, case[1], order="bound", discount=1.0), width=WIDE)
    plan, found = problem.search(policy), problem.enumerate(policy)
    if not found.paths:
        assert_answers_nothing(plan, problem.task)
    else:
        assert_optimal(plan, found)
        assert plan.proved  # nothing was dropped
        assert plan.upper == plan.score


@pytest.mark.parametrize(("name", "mode", "kind"), [("battery", "mean", "beam"), ("battery", "mean", "exact")])
def test_the_compiled_engine_is_enumeration_too(name: str, mode: str, kind: str) -> None:
    rng = np.random.default_rng(17)
    for _ in range(40):
        problem = random_problem(rng, name, mode)
        shared = common(rng, mode)
        policy: Any = uc.UCBeam(**shared, width=WIDE) if kind == "beam" else uc.Exact(**shared)
        plan, found = problem.search(policy, engine="compiled"), problem.enumerate(policy)
        assert plan.engine == "compiled"
        if found.paths:
            assert_optimal(plan, found)
        else:
            assert_answers_nothing(plan, problem.task)


# -------------------------------------------------------------------- exact search


def check_exact(problem: Problem, policy: uc.Exact) -> uc.Status:
    plan, found = problem.search(policy), problem.enumerate(policy)
    if not found.paths:
        assert_answers_nothing(plan, problem.task)
        return plan.status
    assert plan.status is uc.Status.PROVED
    assert_optimal(plan, found)
    assert plan.upper == plan.score
    for i, row in enumerate(plan.first_actions):
        assert row.feasible == (i in found.feasible)
        if not row.feasible or not row.stands_for:
            continue
        # Without every_action a dead first action may be pruned before it is known to be one.
        assert row.dead == (i not in found.alive) or (i not in found.alive and not policy.every_action)
        if i in found.alive:
            assert row.upper >= found.values[i] - found.tau
        if row.exact:
            assert abs(row.score - found.values[i]) <= found.tau
        if policy.every_action and i in found.alive:
            assert row.exact
            assert len(row.path) == policy.depth
    return plan.status


@settings(max_examples=some(400))
@given(seed=SEEDS, case=st.sampled_from(CASES), every=st.booleans())
def test_exact_is_enumeration(seed: int, case: tuple[str, str], every: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    check_exact(problem, uc.Exact(**common(rng, case[1]), every_action=every))


@settings(max_examples=some(250))
@given(seed=SEEDS, case=st.sampled_from(BOUNDED), every=st.booleans())
def test_exact_with_a_bound_is_enumeration(seed: int, case: tuple[str, str], every: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    check_exact(problem, uc.Exact(**common(rng, case[1], order="bound", discount=1.0), every_action=every))


@settings(max_examples=some(400))
@given(seed=SEEDS, case=st.sampled_from(CASES), every=st.booleans())
def test_dynamic_programme_and_perfect_information_are_enumeration(
    seed: int, case: tuple[str, str], every: bool
) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_exact, "ENUMERATE_BELOW", 0)  # small trees are otherwise enumerated
        check_exact(problem, uc.Exact(**common(rng, case[1]), every_action=every))


@settings(max_examples=some(150))
@given(seed=SEEDS, case=st.sampled_from(BOUNDED))
def test_switching_to_the_dynamic_programme_is_enumeration(seed: int, case: tuple[str, str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_exact, "ENUMERATE_BELOW", 0)
        patch.setattr(plain_exact, "DP_SWITCH", int(rng.integers(1, 12)))
        policy = uc.Exact(**common(rng, case[1], order="bound", discount=1.0), every_action=bool(rng.integers(0, 2)))
        check_exact(problem, policy)


@pytest.mark.parametrize(
    ("name", "mode", "depth"),
    [("battery", "mean", 6), ("maze", "mean", 7), ("maze", "members", 7), ("tank", "members", 7)],
)
def test_exact_on_trees_that_it_does_not_enumerate(name: str, mode: str, depth: int) -> None:
    rng = np.random.default_rng(depth)
    for _ in range(3):
        problem = random_problem(rng, name, mode, horizon=depth, members=2, gaps=False)
        check_exact(problem, uc.Exact(**common(rng, mode, depth=depth), every_action=bool(rng.integers(0, 2))))


@settings(max_examples=some(200))
@given(seed=SEEDS, case=st.sampled_from([*CASES, ("stock", "bound")]), budget=st.integers(1, 30))
def test_exact_without_budget_says_so(seed: int, case: tuple[str, str], budget: int) -> None:
    rng = np.random.default_rng(seed)
    mode = "mean" if case[1] == "bound" else case[1]
    problem = random_problem(rng, case[0], mode)
    order = {"order": "bound", "discount": 1.0} if case[1] == "bound" else {}
    policy = uc.Exact(**common(rng, mode, depth=3, **order), node_budget=budget)
    plan, found = problem.search(policy), problem.enumerate(policy)
    if plan.status is uc.Status.PROVED:
        assert_optimal(plan, found)
    elif plan.status is uc.Status.NOT_PROVED:
        assert plan.expansions <= budget
        assert math.isnan(plan.upper)
        assert not any(row.exact or row.dead for row in plan.first_actions)
        if plan.found:
            assert plan.score <= found.best + found.tau
            assert found.find(plan.outputs.path[0].tolist()) is not None
    else:
        assert not found.paths


def test_exact_prefers_the_lower_uncertainty_then_the_smaller_path() -> None:
    """Scores in quarters add up exactly, so the tie rule can be checked to the last bit."""
    rng = np.random.default_rng(3)
    task = TEMPLATES["position"].task
    ties = 0
    for _ in range(150):
        q, u = 0.25 * rng.integers(0, 3, (3, 3)), 0.25 * rng.integers(0, 2, (3, 3))
        state, params = (x[0] if isinstance(x, list) else x for x in TEMPLATES["position"].windows(rng, 1))
        trace = uc.Trace.from_scores(q, u, np.zeros(3))
        problem = Problem(task, state, type(params)(float(params[0][0])), None, trace, "scores")
        shared: dict[str, Any] = {"depth": 3, "mode": "scores", "risk": 0.5}
        found = problem.enumerate(uc.Exact(**shared))
        if not found.paths:
            continue
        ties += sum(p.score == found.best for p in found.paths) > 1
        for policy in (
            uc.Exact(**shared, order="score"), uc.Exact(**shared, order="bound"),
            uc.UCBeam(**shared, width=WIDE, order="score"), uc.ParetoBeam(**shared, width=WIDE, order="bound"),
            uc.MCTS(**shared, simulations=500),
        ):  # fmt: skip
            plan = problem.search(policy)
            assert tuple(plan.outputs.path[0].tolist()) == found.winner.actions, policy
            assert (plan.score, plan.uncertainty) == (found.winner.score, found.winner.uncertainty)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain_exact, "ENUMERATE_BELOW", 0)
            plan = problem.search(uc.Exact(**shared, order="score"))
        assert (plan.score, plan.uncertainty) == (found.winner.score, found.winner.uncertainty)
    assert ties > 50


def test_the_tie_rule_holds_in_members_mode() -> None:
    """Half units and one member, or two of equal weight: every sum is exact, and uncertainty decides at risk 0."""
    rng = np.random.default_rng(0)
    ties = 0
    for _ in range(400):
        problem = random_problem(rng, "stock", "members", members=2, gaps=False)
        if (problem.trace.weights != problem.trace.weights[0, 0]).any():
            continue
        shared: dict[str, Any] = {"depth": 3, "mode": "members", "risk": 0.0, "spread": "variance"}
        found = problem.enumerate(uc.Exact(**shared))
        if not found.paths:
            continue
        ties += sum(p.score == found.best for p in found.paths) > 1
        policies = [
            uc.Exact(**shared, order="score"),
            uc.Exact(**shared, order="bound"),
            uc.UCBeam(**shared, width=WIDE),
        ]
        plans = [problem.search(policy) for policy in policies]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(plain_exact, "ENUMERATE_BELOW", 0)  # now by perfect information
            plans.append(problem.search(policies[0]))
        for plan in plans:
            assert tuple(plan.outputs.path[0].tolist()) == found.winner.actions, plan.policy
    assert ties > 50


# -------------------------------------------------------------------- narrow searches


def narrow(rng: np.random.Generator, mode: str, **fixed: Any) -> Any:
    kind = [uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam, uc.MCTS][int(rng.integers(0, 4))]
    shared = common(rng, mode, deepest=4, **fixed)
    top_k = int(rng.integers(1, 4))
    if kind is uc.MCTS:
        return uc.MCTS(**shared, simulations=int(rng.integers(1, 30)), top_k=top_k)
    return kind(**shared, width=int(rng.integers(top_k, 6)), top_k=top_k)


@settings(max_examples=some(250))
@given(seed=SEEDS, case=st.sampled_from(CASES))
def test_no_search_leaves_the_feasible_set(seed: int, case: tuple[str, str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    policy = narrow(rng, case[1])
    plan = problem.search(policy)
    available = problem.task.actions if problem.actions is None else problem.actions.tolist()
    paths = [row.path for row in plan.first_actions if row.retained]
    assert plan.found == bool(paths)
    for path in [plan.path, *paths] if plan.found else []:
        assert len(path) == policy.depth
        assert set(path) <= set(available)
        assert replay(problem.task, problem.state, problem.trace, path, mode=case[1], params=problem.params)


@settings(max_examples=some(400))
@given(seed=SEEDS, case=st.sampled_from(CASES))
def test_what_a_narrow_search_reports_is_never_above_the_optimum(seed: int, case: tuple[str, str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    policy = narrow(rng, case[1])
    plan, found = problem.search(policy), problem.enumerate(policy)
    for i, row in enumerate(plan.first_actions):
        if row.retained:
            assert row.score <= found.values[i] + found.tau
    if plan.found:
        best = max(row.score for row in plan.first_actions if row.retained)
        assert plan.score == best


def test_an_exhausted_search_is_not_a_dead_end() -> None:
    rng = np.random.default_rng(11)
    seen: dict[uc.Status, int] = {}
    for _ in range(300):
        problem = random_problem(rng, "maze", "mean", gaps=False)
        policy = uc.UCBeam(depth=4, width=1, top_k=1)
        plan, found = problem.search(policy), problem.enumerate(policy)
        seen[plan.status] = seen.get(plan.status, 0) + 1
        if plan.status is uc.Status.DEAD_END:
            assert not found.alive
        else:
            assert found.alive
            assert plan.found == (plan.status is uc.Status.FOUND)
    assert set(seen) == {uc.Status.FOUND, uc.Status.DEAD_END, uc.Status.SEARCH_EXHAUSTED}
    assert min(seen.values()) >= 10


@pytest.mark.parametrize("cheap", [True, False])
def test_in_a_proved_dead_end_every_feasible_action_is_dead(cheap: bool) -> None:
    rng = np.random.default_rng(12)
    dead = 0
    with pytest.MonkeyPatch.context() as patch:
        if not cheap:
            patch.setattr(plain_exact, "ENUMERATE_BELOW", 0)
        for _ in range(60):
            problem = random_problem(rng, "maze", "mean", gaps=False)
            plan = problem.search(uc.Exact(depth=4))
            if plan.status is uc.Status.DEAD_END:
                dead += any(row.feasible for row in plan.first_actions)
                assert all(row.dead for row in plan.first_actions if row.feasible and row.stands_for)
    assert dead > 5


@settings(max_examples=some(150))
@given(seed=SEEDS, case=st.sampled_from(CASES))
def test_removing_actions_never_improves_the_optimum(seed: int, case: tuple[str, str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case, gaps=False)
    policy = uc.Exact(**common(rng, case[1]))
    actions = problem.task.action_array.copy()
    actions[rng.random(actions.size) < 0.4] = np.nan
    fewer = Problem(problem.task, problem.state, problem.params, actions, problem.trace, problem.mode)
    all_of_them, some = problem.search(policy), fewer.search(policy)
    if not some.found:
        return
    assert all_of_them.found
    assert some.score <= all_of_them.score + 1e-9 * (1.0 + abs(all_of_them.score))


# -------------------------------------------------------------------- same effect


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_actions_with_the_same_effect_count_once(mode: str) -> None:
    rng = np.random.default_rng(21)
    duplicates = 0
    for _ in range(120):
        problem = random_problem(rng, "pack", mode)
        for policy in (
            uc.UCBeam(depth=2, width=WIDE, mode=mode),
            uc.Exact(depth=2, mode=mode),
            uc.MCTS(depth=2, mode=mode),
        ):
            plan, found = problem.search(policy), problem.enumerate(policy)
            for i, row in enumerate(plan.first_actions):
                if row.feasible:
                    assert row.stands_for == (found.same_as[i] == i)
                    duplicates += not row.stands_for
                    assert row.stands_for or not (row.generated or row.retained)
        one = problem.search(uc.UCBeam(depth=1, width=WIDE, mode=mode))
        effects = len(set(problem.enumerate(one.policy).same_as.values()))
        assert one.expansions == effects
    assert duplicates > 200


def test_duplicates_take_no_place_among_the_candidates() -> None:
    """Orders 1 to 3 all mean one pack of three, 4 and 5 two: top_k = 3 is enough for everything."""
    task = TEMPLATES["pack"].task
    params = type(task.params)(3.0, 8.0)
    trace = uc.Trace.from_members([[2.0, 2.0], [4.0, 1.0]])
    state = task.state(0.0)
    plan = uc.search(task, state, trace, uc.UCBeam(depth=2, width=9, top_k=3), params=params, engine="python")
    assert [row.action for row in plan.first_actions if row.retained] == [0.0, 1.0, 4.0]
    assert [row.action for row in plan.first_actions if not row.stands_for] == [2.0, 3.0, 5.0]


# -------------------------------------------------------------------- bounds


@settings(max_examples=some(250))
@given(seed=SEEDS, case=st.sampled_from(BOUNDED))
def test_the_proved_upper_bound_holds(seed: int, case: tuple[str, str]) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    shared = common(rng, case[1], deepest=4, order="bound", discount=1.0)
    kind = [uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam][int(rng.integers(0, 3))]
    top_k = int(rng.integers(1, 4))
    policy = kind(**shared, width=int(rng.integers(top_k, 6)), top_k=top_k)
    plan, found = problem.search(policy), problem.enumerate(policy)
    if not plan.found:
        return
    assert plan.upper >= found.best - found.tau
    assert plan.optimality_gap >= 0.0
    if plan.proved:
        assert abs(plan.score - found.best) <= found.tau
        assert plan.action_index in found.optimal_firsts()
    for i, row in enumerate(plan.first_actions):
        if row.dead:
            assert i not in found.alive
        if i in found.alive and row.stands_for:
            assert row.upper >= found.values[i] - found.tau


def test_bounds_allow_for_uncertainty_that_falls() -> None:
    """Members that hedge each other: a risky first step can end in a certain return, so U may fall along a path."""
    rng = np.random.default_rng(32)
    hedged = 0
    for _ in range(some(60)):
        swing, drift = rng.normal(0, 1, 4), 0.1 * rng.random(4)
        for h in (1, 3):
            swing[h] = -swing[h - 1]
        trace = uc.Trace.from_members(np.stack([swing + drift, drift - swing]))
        problem = Problem(TEMPLATES["free"].task, TEMPLATES["free"].task.state(0.0), None, None, trace, "members")
        shared: dict[str, Any] = {"depth": 4, "mode": "members", "risk": 5.0, "spread": "std"}
        found = problem.enumerate(uc.Exact(**shared))
        for low in (4096, 0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(plain_exact, "ENUMERATE_BELOW", low)
                for order in ("score", "bound"):
                    assert_optimal(problem.search(uc.Exact(**shared, order=order)), found)
        for top_k in (2, 4):
            plan = problem.search(uc.UCBeam(**shared, width=4, top_k=top_k, order="bound"))
            assert plan.upper >= found.best - found.tau
            for i, row in enumerate(plan.first_actions):
                assert row.upper >= found.values[i] - found.tau
        winner = found.winner.actions
        hedged += found.best > found.tau and winner[0] == winner[1] != 1
    assert hedged > some(5)


def test_a_tight_bound_proves_what_a_narrow_beam_found() -> None:
    rng = np.random.default_rng(31)
    proved = 0
    for _ in range(50):
        problem = random_problem(rng, "free", "mean", gaps=False)
        policy = uc.UCBeam(depth=4, width=4, top_k=2, risk=0.5, order="bound")
        proved += problem.search(policy).optimality_gap <= 1e-9
    assert proved >= 45


# -------------------------------------------------------------------- Monte Carlo tree search


@settings(max_examples=some(200))
@given(seed=SEEDS, case=st.sampled_from(CASES), c_uct=st.sampled_from([0.0, 0.5, 1.4]))
def test_many_simulations_find_the_optimum(seed: int, case: tuple[str, str], c_uct: float) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    policy = uc.MCTS(**common(rng, case[1]), simulations=3000, c_uct=c_uct)
    plan, found = problem.search(policy), problem.enumerate(policy)
    if found.paths:
        assert_optimal(plan, found)
    else:
        assert_answers_nothing(plan, problem.task)


@settings(max_examples=some(200))
@given(seed=SEEDS, case=st.sampled_from(CASES), simulations=st.integers(1, 60))
def test_simulations_bound_the_expansions(seed: int, case: tuple[str, str], simulations: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case)
    policy = uc.MCTS(**common(rng, case[1], deepest=4), simulations=simulations, top_k=int(rng.integers(1, 5)))
    plan = problem.search(policy)
    assert plan.simulations <= simulations
    assert plan.expansions <= plan.simulations * policy.depth


# -------------------------------------------------------------------- what a layer keeps


def node(reward: float, uncertainty: float, *path: int) -> Node:
    return Node((), (), reward, uncertainty, reward - 0.5 * uncertainty, 0.0, path or (0,))


def naive_front(nodes: list[Node]) -> list[Node]:
    """Nodes that no other equals in both and beats in one."""

    def beats(a: Node, b: Node) -> bool:
        at_least = a.reward >= b.reward and a.uncertainty <= b.uncertainty
        return at_least and (a.reward > b.reward or a.uncertainty < b.uncertainty)

    return [n for n in nodes if not any(beats(m, n) for m in nodes)]


FRONTS: dict[str, list[Node]] = {
    "empty": [],
    "single": [node(1.0, 1.0)],
    "duplicates": [node(1.0, 1.0, 0), node(1.0, 1.0, 1), node(0.0, 0.0, 2), node(0.0, 0.0, 3)],
    "all dominated by one": [node(2.0, 0.0, 0), *(node(1.0, float(i), i) for i in range(1, 5))],
    "a chain": [node(float(i), float(i), i) for i in range(5)],
    "equal rewards": [node(1.0, float(i), i) for i in range(4)],
    "equal uncertainties": [node(float(i), 1.0, i) for i in range(4)],
}


@pytest.mark.parametrize("name", FRONTS)
def test_named_fronts(name: str) -> None:
    nodes = FRONTS[name]
    assert sorted(n.path for n in _nondominated(nodes)) == sorted(n.path for n in naive_front(nodes))


@settings(max_examples=some(300))
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25))
def test_random_fronts(points: list[tuple[int, int]]) -> None:
    nodes = [node(float(r), float(u), i) for i, (r, u) in enumerate(points)]
    assert sorted(n.path for n in _nondominated(nodes)) == sorted(n.path for n in naive_front(nodes))


@settings(max_examples=some(400))
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=25), st.integers(1, 12))
def test_a_pareto_layer_keeps_the_front_first_then_the_best_scores(points: list[tuple[int, int]], width: int) -> None:
    nodes = [node(float(r), float(u), i) for i, (r, u) in enumerate(points)]
    window: Any = SimpleNamespace(settings=SimpleNamespace(keep=Keep.PARETO, width=width, use_bound=False))
    kept = _retain(window, nodes, Outcome(30))
    order = sorted(nodes, key=lambda n: (-n.score, n.uncertainty, n.path))
    front = {n.path for n in naive_front(nodes)}
    expected = [n for n in order if n.path in front] + [n for n in order if n.path not in front]
    assert [n.path for n in kept] == [n.path for n in expected[:width]]


def test_a_certified_layer_keeps_the_best_of_every_first_action() -> None:
    rng = np.random.default_rng(41)
    for _ in range(100):
        firsts = int(rng.integers(1, 5))
        rewards, uncertainties = rng.integers(0, 9, 20).tolist(), rng.integers(0, 9, 20).tolist()
        starts = rng.integers(0, firsts, 20).tolist()
        nodes = [node(float(rewards[i]), float(uncertainties[i]), starts[i], i) for i in range(20)]
        window: Any = SimpleNamespace(settings=SimpleNamespace(keep=Keep.CERTIFIED, width=firsts + 1, use_bound=False))
        kept = {n.path for n in _retain(window, nodes, Outcome(30))}
        for first in {n.path[0] for n in nodes}:
            own = [n for n in nodes if n.path[0] == first]
            assert min(own, key=lambda n: (-n.score, n.uncertainty, n.path)).path in kept


@settings(max_examples=some(150))
@given(seed=SEEDS, case=st.sampled_from([("tank", "mean"), ("clock", "mean"), ("clock", "scores"), ("free", "mean")]))
def test_certified_beams_retain_every_first_action_they_generated(seed: int, case: tuple[str, str]) -> None:
    """These tasks have no dead ends, so nothing but the beam could lose a first action."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, *case, gaps=False)
    top_k = int(rng.integers(1, 5))
    plan = problem.search(uc.CertifiedBeam(**common(rng, case[1], deepest=4), width=top_k, top_k=top_k))
    generated = [row.action for row in plan.first_actions if row.generated]
    assert generated
    assert [row.action for row in plan.first_actions if row.retained] == generated
