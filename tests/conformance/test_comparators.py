"""Comparators: two engines alike, feasible at every step, exact counts, exhaustive where the budget allows it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.conformance.test_engines import assert_same_bytes, random_panel
from tests.kit.counts import some
from tests.kit.templates import TEMPLATES, Cell, MazeParams, clock, maze, pack
from ucsearch.engine import PanelPlan
from ucsearch.errors import BudgetError, InputError, TaskError
from ucsearch.lab.comparators import (
    CEM,
    MPPI,
    Comparator,
    DelayAwareGreedy,
    Greedy,
    Random,
    RandomShooting,
    RiskGreedy,
    RiskRandom,
    WarmStart,
    beam,
    exact_dp,
    key_from,
    match_exposure,
    matched_samples,
    mean_exposure,
)
from ucsearch.lab.comparators.streams import GOLDEN, content_of, contents_of_rows, mix64, uniform

MYOPIC = (Random, Greedy, RiskGreedy, DelayAwareGreedy)
SAMPLING = (RandomShooting, RiskRandom, CEM, MPPI)
SEEDED = (Random, *SAMPLING)


def search(*args: Any, **settings: Any) -> uc.Plan:
    return uc.search(*args, **settings, engine="python")


def make(kind: type[Comparator], depth: int, samples: int = 20, seed: int = 1, **settings: Any) -> Any:
    if kind in SAMPLING:
        settings |= dict(samples=samples)
    if kind in (CEM, MPPI):
        settings.setdefault("iterations", min(samples, 5))
    if kind in SEEDED:
        settings |= dict(seed=seed)
    if kind is DelayAwareGreedy:
        settings.setdefault("delay", depth - 1)
    return kind(depth=depth, **settings)


# ---------------------------------------------------------------- two engines

# (template, mode, kinds, windows). One kernel serves a family; the two of the maze are compiled for other tests too.
CASES = [
    ("maze", "mean", MYOPIC, 800),
    ("maze", "mean", SAMPLING, 800),
    ("stock", "members", SAMPLING, 400),
    ("position", "scores", MYOPIC, 400),
    ("risky", "mean", MYOPIC, 400),
    ("followed", "members", SAMPLING, 300),
]


@pytest.mark.parametrize(("name", "mode", "kinds", "windows"), CASES)
def test_kernel_text_equals_python(name: str, mode: str, kinds: tuple[Any, ...], windows: int) -> None:
    same(name, mode, kinds, some(windows))


@pytest.mark.slow  # compiles kernels of their own; their text is run above
@pytest.mark.compiled
@pytest.mark.parametrize(("name", "mode", "kinds", "windows"), CASES)
def test_compiled_equals_python(name: str, mode: str, kinds: tuple[Any, ...], windows: int) -> None:
    same(name, mode, kinds, windows)


def same(name: str, mode: str, kinds: tuple[Any, ...], windows: int) -> None:
    rng = np.random.default_rng([windows, *map(ord, name + mode + kinds[0].__name__)])
    statuses: set[int] = set()
    for _ in range(windows // 40):
        panel = random_panel(rng, name, mode, 10)
        horizon = panel["traces"].horizon
        for kind in kinds:
            depth, samples = int(rng.integers(1, horizon + 1)), int(rng.choice([1, 7, 40]))
            settings: dict[str, Any] = dict(
                mode=mode,
                risk=float(rng.choice([0.0, 0.5, 1.0])),
                spread=str(rng.choice(["variance", "std", "downside"])),
                discount=float(rng.choice([1.0, 0.9])),
                reward_only=bool(rng.integers(0, 2)),
            )
            if kind in SAMPLING:
                settings |= dict(stratified=bool(rng.integers(0, 3)))
            if kind is DelayAwareGreedy:
                settings |= dict(delay=int(rng.integers(0, depth)))
            if kind in (CEM, MPPI):
                warm = tuple(int(x) for x in rng.integers(-1, len(panel["task"].actions), depth))
                settings |= dict(
                    memory=int(rng.integers(0, min(samples, 3) + 1)), smoothing=float(rng.choice([0.0, 0.3])),
                    floor=float(rng.choice([0.0, 0.1])), blur=float(rng.choice([0.0, 0.5])),
                    warm=WarmStart((warm,)) if rng.integers(0, 2) else None,
                )  # fmt: skip
            policy = make(kind, depth, samples, key_from(rng), **settings)
            fast = uc.search_panel(**panel, policy=policy, engine="compiled", threads=1, keep_paths=True)
            plain = uc.search_panel(**panel, policy=policy, engine="python", keep_paths=True)
            assert fast.engine == "compiled"
            assert_same_bytes(fast, plain)
            statuses |= set(fast.status.tolist())
    expected = {uc.Status.FOUND} | ({uc.Status.DEAD_END} if name in ("maze", "followed") else set())
    expected |= {uc.Status.TASK_ERROR} if name == "risky" else set()
    expected |= {uc.Status.SEARCH_EXHAUSTED} if name == "maze" and kinds is SAMPLING else set()
    assert expected <= statuses


# ---------------------------------------------------------------- what is returned is feasible


def has_completion(state: Any, depth: int, mean: np.ndarray, params: Any, actions: list[float]) -> bool:
    if depth == 0:
        return True
    step = len(mean) - depth
    return any(
        maze.feasible(state, a, params)
        and has_completion(maze.step(state, a, mean[step], params), depth - 1, mean, params, actions)
        for a in actions
    )


@pytest.mark.parametrize("kind", MYOPIC + SAMPLING)
def test_feasible_on_windows_with_dead_ends(kind: Any) -> None:
    """As Python; twenty thousand windows by compiled kernels run with the slow tests."""
    feasible_with_dead_ends(kind, 200)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("kind", MYOPIC + SAMPLING)
def test_feasible_on_twenty_thousand_windows_with_dead_ends(kind: Any) -> None:
    feasible_with_dead_ends(kind, 20_000)


def feasible_with_dead_ends(kind: Any, count: int) -> None:
    rng = np.random.default_rng(3)
    depth = 4
    states, params = TEMPLATES["maze"].windows(rng, count)
    trace = uc.Trace.from_members(TEMPLATES["maze"].outcomes(rng, (count, 3, depth)))
    policy = make(kind, depth, samples=12, risk=0.5)
    plan = uc.search_panel(maze, states, trace, policy, params=params, engine="compiled")
    found, path, mean = plan.status == uc.Status.FOUND, plan.path, trace.mean[..., 0]
    assert 0.25 * count < found.sum() < count
    assert not np.isnan(path[found]).any()
    assert np.isnan(path[~found]).all()
    for w in np.flatnonzero(found).tolist():
        p = MazeParams(tuple(params.wall[w].tolist()), float(params.slope[w]))
        state, total = states[w], 0.0
        for h, a in enumerate(path[w].tolist()):
            assert maze.feasible(state, a, p), (w, h)
            total += maze.reward(state, a, mean[w, h], p)
            state = maze.step(state, a, mean[w, h], p)
        assert total == plan.reward[w]
    for w in np.flatnonzero(~found)[:1_500].tolist():
        p = MazeParams(tuple(params.wall[w].tolist()), float(params.slope[w]))
        expected = (
            uc.Status.SEARCH_EXHAUSTED
            if has_completion(states[w], depth, mean[w], p, list(maze.actions))
            else uc.Status.DEAD_END
        )
        assert plan.status[w] == expected
        # A walk that steps back finds a path whenever there is one.
        assert kind in SAMPLING or expected == uc.Status.DEAD_END


# ---------------------------------------------------------------- exhaustive when the budget covers the space


def best_by_enumeration(task: uc.Task, state: Any, members: np.ndarray, params: Any, depth: int, risk: float) -> Any:
    """Best S over all feasible plans and the plans that reach it, from the task's functions alone."""
    mean, scores = members.mean(axis=0), {}
    for plan in itertools.product(task.actions, repeat=depth):
        s, reward, uncertainty = state, 0.0, 0.0
        for h, a in enumerate(plan):
            if not task.feasible(s, a, params):
                break
            reward += task.reward(s, a, mean[h], params)
            uncertainty += float(np.std([task.reward(s, a, y, params) for y in members[:, h]]))
            s = task.step(s, a, mean[h], params)
        else:
            scores[plan] = reward - risk * uncertainty
    if not scores:
        return None, set()
    top = max(scores.values())
    return top, {plan for plan, score in scores.items() if score >= top - 1e-9}


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("kind", [RiskRandom, CEM, MPPI])
def test_equals_exhaustive_search_when_every_plan_can_be_sampled(kind: Any) -> None:
    rng = np.random.default_rng(8)
    states, params = TEMPLATES["maze"].windows(rng, 60)
    demand = TEMPLATES["maze"].outcomes(rng, (60, 3, 3))
    covering = make(kind, 3, samples=64 * (1 if kind is RiskRandom else 5), risk=0.5)
    plan = uc.search_panel(maze, states, uc.Trace.from_members(demand), covering, params=params, engine="compiled")
    alive = 0
    for w, state in enumerate(states):
        p = MazeParams(tuple(params.wall[w].tolist()), float(params.slope[w]))
        top, plans = best_by_enumeration(maze, state, demand[w], p, 3, 0.5)
        if top is None:
            assert plan.status[w] == uc.Status.DEAD_END
            continue
        alive += 1
        assert plan.score[w] == pytest.approx(top, abs=1e-9)
        assert tuple(plan.path[w].tolist()) in plans
    assert alive > 30


@pytest.mark.parametrize("name", ["random shooting", "beam, risk 0", "exact"])
def test_reward_only_and_tree_policies_equal_exhaustive_search_too(name: str) -> None:
    """Random shooting and the plain beam look at reward alone, so they are held against the best plan at risk 0."""
    rng = np.random.default_rng(19)
    states, params = TEMPLATES["maze"].windows(rng, 60)
    demand = TEMPLATES["maze"].outcomes(rng, (60, 3, 3))
    risk = 0.5 if name == "exact" else 0.0
    policy = {
        "random shooting": RandomShooting(depth=3, samples=64, risk=0.5, seed=1),
        "beam, risk 0": beam(depth=3, width=64),
        "exact": exact_dp(depth=3, risk=0.5),
    }[name]
    plan = uc.search_panel(maze, states, uc.Trace.from_members(demand), policy, params=params, engine="python")
    alive = 0
    for w, state in enumerate(states):
        p = MazeParams(tuple(params.wall[w].tolist()), float(params.slope[w]))
        top, plans = best_by_enumeration(maze, state, demand[w], p, 3, risk)
        if top is None:
            assert plan.status[w] == uc.Status.DEAD_END
            continue
        alive += 1
        found = plan.score[w] if name == "exact" else plan.reward[w]
        assert found == pytest.approx(top, abs=1e-9)
        assert tuple(plan.path[w].tolist()) in plans
    assert alive > 30


@pytest.mark.parametrize("kind", [RiskRandom, CEM, MPPI])
def test_as_many_samples_as_plans_try_each_plan_once(kind: Any) -> None:
    """27 plans, 27 samples in the first iteration: whichever plan is the best, it is found."""
    rng = np.random.default_rng(18)
    demand = rng.normal(0, 1, (60, 4, 3))
    iterations = 1 if kind is RiskRandom else 2
    policy = make(kind, 3, samples=27 * iterations, **({} if kind is RiskRandom else dict(iterations=iterations)))
    states = TEMPLATES["clock"].windows(rng, 60)[0]
    plan = uc.search_panel(clock, states, uc.Trace.from_members(demand), policy, engine="python")
    for w, state in enumerate(states):
        top, plans = best_by_enumeration(clock, state, demand[w], None, 3, 0.0)
        assert tuple(plan.path[w].tolist()) in plans
        assert plan.score[w] == pytest.approx(top, abs=1e-9)


@pytest.mark.parametrize("kind", [Greedy, RiskGreedy, DelayAwareGreedy])
def test_greedy_equals_exhaustive_search_where_actions_change_nothing_later(kind: Any) -> None:
    rng = np.random.default_rng(9)
    demand = np.round(rng.normal(0, 1, (40, 4, 3)), 1)
    risk = 0.0 if kind is Greedy else 0.5
    policy = make(kind, 3, risk=risk)
    states, _ = TEMPLATES["clock"].windows(rng, 40)
    plan = uc.search_panel(clock, states, uc.Trace.from_members(demand), policy, engine="python")
    for w, state in enumerate(states):
        top, plans = best_by_enumeration(clock, state, demand[w], None, 3, risk)
        assert plan.score[w] == pytest.approx(top, abs=1e-9)
        assert tuple(plan.path[w].tolist()) in plans


@pytest.mark.slow  # compiles a kernel of its own
@pytest.mark.compiled
@pytest.mark.parametrize(("kind", "limit"), [(CEM, 0.02), (MPPI, 0.02)])
def test_cem_and_mppi_come_close_with_a_third_of_the_space(kind: Any, limit: float) -> None:
    """Mean loss against the best of all 1,024 plans, as a share of what random plans lose."""
    rng = np.random.default_rng(10)
    states, params = TEMPLATES["stock"].windows(rng, 200)
    trace = uc.Trace.from_members(0.5 * rng.integers(0, 13, (200, 4, 5)))
    common = dict(params=params, engine="compiled")
    settings: dict[str, Any] = dict(mode="members", risk=0.5)
    best = uc.search_panel(stock(), states, trace, make(RiskRandom, 5, 1_024, **settings), **common)
    close = uc.search_panel(stock(), states, trace, make(kind, 5, 340, **settings), **common)
    one = uc.search_panel(stock(), states, trace, make(RiskRandom, 5, 1, **settings), **common)
    both = (best.status == uc.Status.FOUND) & (one.status == uc.Status.FOUND)
    assert (close.status[both] == uc.Status.FOUND).all()
    loss = (best.score - close.score)[both]
    assert (loss >= 0.0).all()
    assert loss.mean() <= limit * (best.score - one.score)[both].mean()


def stock() -> uc.Task:
    return TEMPLATES["stock"].task


# ---------------------------------------------------------------- counts


class Place(NamedTuple):
    at: float


def cliff_feasible(s: Place, a: float, p: None) -> bool:
    return s.at < 10.0


def cliff_step(s: Place, a: float, y: float, p: None) -> Place:
    return Place(10.0 if a == 2.0 else s.at + 1.0)


def cliff_reward(s: Place, a: float, y: float, p: None) -> float:
    return a * y


cliff = uc.Task(
    name="cliff", state=Place, actions=[1.0, 2.0], feasible=cliff_feasible, step=cliff_step, reward=cliff_reward,
    fallback=lambda s, p: 1.0,
)  # fmt: skip


def test_expansions_are_exact() -> None:
    trace = uc.Trace.from_members(np.random.default_rng(0).normal(size=(128, 4, 3)))
    states = TEMPLATES["clock"].windows(np.random.default_rng(0), 128)[0]

    def total(policy: Any) -> int:
        return int(uc.search_panel(clock, states, trace, policy, engine="python").expansions.sum())

    for kind in SAMPLING:
        assert total(make(kind, 3, samples=32)) == 12_288 == 128 * make(kind, 3, samples=32).node_budget
    assert total(make(RandomShooting, 3, samples=24)) == 128 * 72
    assert 511 * 24 * 3 == 36_792
    assert total(beam(depth=3, width=3, top_k=3)) == 2_688
    for kind in (Random, Greedy, RiskGreedy):
        assert total(make(kind, 3)) == 0
    assert total(DelayAwareGreedy(delay=2)) == 128 * 3 * 2
    assert total(DelayAwareGreedy(delay=0)) == 0
    assert matched_samples(96, 3) == 32
    assert matched_samples(98, 3) == 32


def test_steps_tried_in_vain_are_counted() -> None:
    one = uc.Trace.from_members(np.ones((1, 3)))
    near = search(cliff, Place(0.0), one, Greedy(depth=1))
    assert (near.action, near.expansions) == (2.0, 0)
    far = search(cliff, Place(0.0), one, Greedy(depth=3))
    # 2 first and its dead end, then 1, then 2 and its dead end again, then 1 and 2.
    assert (far.path, far.expansions) == ((1.0, 1.0, 2.0), 2)
    dead = search(cliff, Place(10.0), one, Greedy(depth=3))
    assert (dead.status, dead.expansions, dead.action) == (uc.Status.DEAD_END, 0, None)
    for seed in range(20):
        plan = search(cliff, Place(0.0), one, Random(depth=3, seed=seed))
        assert plan.path in ((1.0, 1.0, 1.0), (1.0, 1.0, 2.0))
    ends = {search(cliff, Place(0.0), one, RiskRandom(depth=3, samples=1, seed=s)).status for s in range(20)}
    assert ends == {uc.Status.FOUND, uc.Status.SEARCH_EXHAUSTED}


def test_discarded_samples_are_counted() -> None:
    one = uc.Trace.from_members(np.ones((1, 3)))
    plan = search(cliff, Place(0.0), one, RiskRandom(depth=3, samples=8, seed=1))
    # Systematic sampling gives each of the 8 nominal plans one sample: 4 die after a step, 2 after two.
    assert plan.simulations == 2
    assert plan.expansions == 4 * 1 + 2 * 2 + 2 * 3


# ---------------------------------------------------------------- random numbers


def test_streams_are_splitmix() -> None:
    # The first numbers of SplitMix64 with seed 0, from the published C code.
    assert [mix64(GOLDEN * i % 2**64) for i in (1, 2, 3)] == [
        0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F,
    ]  # fmt: skip
    rows = np.array([[1.0, -0.0, math.nan, -2.5], [1.0, 0.0, math.nan, -2.5], [1.0, 0.0, 0.0, 0.0]])
    assert contents_of_rows(rows).tolist() == [content_of(r) for r in rows.tolist()]
    assert content_of(rows[0]) == content_of(rows[1]) != content_of(rows[2])
    draws = [uniform(s) for s in range(20_000)]
    assert 0.0 < min(draws) < 1e-3
    assert 1.0 - 1e-3 < max(draws) < 1.0
    assert np.mean(draws) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("kind", SEEDED)
def test_equal_seeds_repeat_and_other_seeds_do_not(kind: Any) -> None:
    rng = np.random.default_rng(4)
    panel = random_panel(rng, "maze", "mean", 300)
    depth, key = min(3, panel["traces"].horizon), key_from(rng)

    def run(seed: int) -> PanelPlan:
        return uc.search_panel(**panel, policy=make(kind, depth, 5, seed=seed, risk=0.5), engine="compiled")

    assert_same_bytes(run(key), run(key))
    assert run(key).outputs.path.tobytes() != run(key_from(rng)).outputs.path.tobytes()


@pytest.mark.parametrize("kind", SEEDED)
def test_batches_order_and_threads_do_not_matter(kind: Any) -> None:
    rng = np.random.default_rng(6)
    states, params = TEMPLATES["maze"].windows(rng, 100)
    demand = TEMPLATES["maze"].outcomes(rng, (100, 3, 4))
    policy = make(kind, 3, 9, risk=0.5)

    def run(pick: np.ndarray, threads: int) -> PanelPlan:
        some = MazeParams(params.wall[pick], params.slope[pick])
        trace = uc.Trace.from_members(demand[pick])
        chosen = [states[i] for i in pick]
        return uc.search_panel(maze, chosen, trace, policy, params=some, engine="compiled", threads=threads)

    whole = run(np.arange(100), 1)
    assert_same_bytes(whole, run(np.arange(100), 2))
    order = rng.permutation(100)
    for pick in (order, order[:37]):
        part = run(pick, 2)
        assert part.outputs.path.tobytes() == whole.outputs.path[pick].tobytes()
        assert part.outputs.out_f.tobytes() == whole.outputs.out_f[pick].tobytes()


def test_random_is_uniform_over_the_actions_that_have_a_completion() -> None:
    one = uc.Trace.from_members(np.ones((1, 2)))
    state, p = Cell(0.0, 0.0), MazeParams((-2.0, -2.0, -2.0, -2.0), 1.0)
    firsts = [
        search(maze, state, one, Random(depth=2, seed=key_from(np.random.default_rng(i))), params=p).action
        for i in range(1_200)
    ]
    values, counts = np.unique(firsts, return_counts=True)
    assert values.tolist() == [-2.0, -1.0, 1.0, 2.0]
    # Four standard deviations of a binomial with p = 1/4.
    assert (np.abs(counts - 300) < 60).all()


def test_stratified_plans_are_spread_and_independent_ones_are_not() -> None:
    one = uc.Trace.from_members(np.zeros((2, 3)))
    state = TEMPLATES["clock"].windows(np.random.default_rng(0), 1)[0][0]
    spread = search(clock, state, one, RiskRandom(depth=3, samples=3, seed=2))
    assert all(row.retained for row in spread.first_actions)
    drawn = [search(clock, state, one, RiskRandom(depth=3, samples=3, seed=s, stratified=False)) for s in range(20)]
    assert not all(row.retained for plan in drawn for row in plan.first_actions)


# ---------------------------------------------------------------- objectives


def test_reward_only_ranks_by_reward_and_reports_the_score() -> None:
    rng = np.random.default_rng(12)
    panel = random_panel(rng, "maze", "mean", 400)
    depth = panel["traces"].horizon
    by_reward = uc.search_panel(**panel, policy=make(RandomShooting, depth, 12, risk=0.5), engine="compiled")
    by_score = uc.search_panel(**panel, policy=make(RiskRandom, depth, 12, risk=0.5), engine="compiled")
    found = by_reward.status == uc.Status.FOUND
    assert (by_score.score >= by_reward.score)[found].all()
    assert (by_reward.reward >= by_score.reward)[found].all()
    assert (by_reward.reward > by_score.reward)[found].any()
    assert np.array_equal(by_reward.score, by_reward.reward - 0.5 * by_reward.uncertainty, equal_nan=True)


def test_delay_aware_greedy_credits_after_the_delay() -> None:
    """Against the definition: first action, then the best immediate reward; the score of delay + 1 steps decides."""
    rng = np.random.default_rng(13)
    states, params = TEMPLATES["pack"].windows(rng, 60)
    demand = TEMPLATES["pack"].outcomes(rng, (60, 3, 3))
    plan = uc.search_panel(
        pack, states, uc.Trace.from_members(demand), DelayAwareGreedy(delay=2, risk=0.5), params=params, engine="python"
    )
    compared = 0
    for w, start in enumerate(states):
        p, mean = type(params)(*(float(x[w]) for x in params)), demand[w].mean(axis=0)

        def edge(s: Any, a: float, h: int, p: Any = p, mean: Any = mean, w: int = w) -> float:
            spread = np.std([pack.reward(s, a, y, p) for y in demand[w, :, h]])
            return float(pack.reward(s, a, mean[h], p) - 0.5 * spread)

        values = {}
        for first in pack.actions:
            if not pack.feasible(start, first, p):
                continue
            s, total, a = start, 0.0, first
            for h in range(3):
                allowed = [first] if h == 0 else [x for x in pack.actions if pack.feasible(s, x, p)]
                if not allowed:
                    break
                a = max(allowed, key=lambda x: (edge(s, x, h), -x))
                total += edge(s, a, h)
                s = pack.step(s, a, mean[h], p)
            else:
                values[first] = total
        if not values:
            continue
        compared += 1
        assert values[float(plan.action[w])] == pytest.approx(max(values.values()), abs=1e-9)
    assert compared > 40


def test_delay_zero_is_risk_greedy() -> None:
    rng = np.random.default_rng(14)
    panel = random_panel(rng, "maze", "mean", 300)
    a = uc.search_panel(**panel, policy=DelayAwareGreedy(delay=0, risk=0.5), engine="compiled")
    b = uc.search_panel(**panel, policy=RiskGreedy(risk=0.5), engine="compiled")
    assert np.array_equal(a.path, b.path, equal_nan=True)


def test_helpers_are_the_search_policies() -> None:
    assert beam(depth=3, width=3, top_k=2) == uc.UCBeam(
        depth=3, width=3, top_k=2, risk=0.0, prune_risk=0.0, order="score"
    )
    assert exact_dp(depth=4, risk=0.5) == uc.Exact(depth=4, risk=0.5)


# ---------------------------------------------------------------- NaN


def nan_reward(s: Place, a: float, y: float, p: None) -> float:
    return math.nan if a == 2.0 else a * y


broken = replace(cliff, name="broken", reward=nan_reward)


@pytest.mark.parametrize("kind", MYOPIC + SAMPLING)
def test_nan_never_wins(kind: Any) -> None:
    one = uc.Trace.from_members(np.ones((1, 2)))
    with pytest.raises(TaskError, match="reward is not a finite number"):
        search(broken, Place(0.0), one, make(kind, 2))
    with pytest.raises(InputError):
        uc.Trace.from_scores(np.array([[math.nan, 1.0]]), np.zeros((1, 2)))
    rng = np.random.default_rng(15)
    states, params = TEMPLATES["risky"].windows(rng, 200)
    trace = uc.Trace.from_members(TEMPLATES["risky"].outcomes(rng, (200, 2, 3)))
    plan = uc.search_panel(TEMPLATES["risky"].task, states, trace, make(kind, 3, 4), params=params, engine="python")
    found = plan.status == uc.Status.FOUND
    assert np.isfinite(plan.score[found]).all()
    assert (plan.status == uc.Status.TASK_ERROR).any()
    assert (plan.outputs.out_i[plan.status == uc.Status.TASK_ERROR, 1] == -1).all()


# ---------------------------------------------------------------- warm starts


@pytest.mark.parametrize("kind", [CEM, MPPI])
def test_the_first_sample_follows_the_warm_plan(kind: Any) -> None:
    one = uc.Trace.from_members(np.ones((2, 4)))
    state = TEMPLATES["clock"].windows(np.random.default_rng(0), 1)[0][0]
    policy = make(kind, 4, samples=1, warm=WarmStart(((2, 0, -1, 1),)))
    path = search(clock, state, one, policy).path
    assert (path[0], path[1], path[3]) == (1.0, -1.0, 0.0)
    # Infeasible steps of it are sampled instead.
    plan = search(cliff, Place(0.0), one, make(kind, 2, samples=1, seed=1, warm=WarmStart(((1, 1),))))
    assert plan.status is uc.Status.SEARCH_EXHAUSTED


def test_each_window_of_a_panel_gets_its_own_plan_back() -> None:
    rng = np.random.default_rng(16)
    states, params = TEMPLATES["maze"].windows(rng, 100)
    free = MazeParams(np.full((100, 4), 9.0), params.slope)
    first, then = (uc.Trace.from_members(TEMPLATES["maze"].outcomes(rng, (100, 3, 3))) for _ in range(2))
    cold = make(CEM, 3, samples=30, risk=0.5)
    plan = uc.search_panel(maze, states, first, cold, params=free, engine="compiled")
    found = (plan.status == uc.Status.FOUND) & (np.array([s.y for s in states]) == 0.0)
    assert found.sum() > 10
    # Start the next decision from the same state, so that the moved plan is feasible there as far as it goes.
    warm = replace(cold.warmed(plan, states, then), samples=1, iterations=1)
    again = uc.search_panel(maze, states, then, warm, params=free, engine="compiled")
    assert_same_bytes(again, uc.search_panel(maze, states, then, warm, params=free, engine="python"))
    same = np.array([np.array_equal(a[:2], b[1:]) for a, b in zip(again.path, plan.path, strict=True)])
    assert same[found].mean() > 0.5
    shuffled = rng.permutation(100)
    part = uc.search_panel(
        maze, [states[i] for i in shuffled], uc.Trace.from_members(then.members[shuffled, ..., 0]), warm,
        params=MazeParams(free.wall[shuffled], free.slope[shuffled]), engine="compiled",
    )  # fmt: skip
    assert np.array_equal(part.path, again.path[shuffled], equal_nan=True)
    # Windows it does not know start cold.
    stale = cold.warmed(plan, states, then)
    fresh = uc.Trace.from_members(TEMPLATES["maze"].outcomes(rng, (100, 3, 3)) + 0.125)
    assert_same_bytes(
        uc.search_panel(maze, states, fresh, stale, params=free, engine="compiled"),
        uc.search_panel(maze, states, fresh, cold, params=free, engine="compiled"),
    )


def test_warm_after_one_plan_is_the_plan_moved_on() -> None:
    one = uc.Trace.from_members(np.ones((1, 3)))
    policy = make(CEM, 3, samples=40)
    plan = search(cliff, Place(0.0), one, policy)
    assert plan.path == (1.0, 1.0, 2.0)
    assert policy.warmed(plan).warm == WarmStart(((0, 1),))
    with pytest.raises(InputError, match="warm"):
        search(cliff, Place(0.0), one, replace(policy, warm=WarmStart(((7,),))))


# ---------------------------------------------------------------- exposure


def test_match_exposure_finds_the_risk() -> None:
    smooth = match_exposure(lambda risk: 2.0 / (1.0 + risk), 0.5)
    assert smooth.error <= 1e-3
    assert smooth.risk == pytest.approx(3.0, abs=0.02)
    steps = match_exposure(lambda risk: float(risk < 1.7) + float(risk < 0.9), 1.1, tolerance=0.0)
    assert steps.exposure == 1.0
    assert 0.9 <= steps.risk < 1.7
    away = match_exposure(lambda risk: 1.0 + risk, 0.5)
    assert (away.risk, away.exposure) == (0.0, 1.0)
    with pytest.raises(InputError, match="exposure_at"):
        match_exposure(lambda risk: math.nan, 0.5)
    with pytest.raises(InputError, match="target"):
        match_exposure(lambda risk: 1.0, math.nan)


def test_match_exposure_of_risk_greedy_on_a_panel() -> None:
    rng = np.random.default_rng(17)
    states = TEMPLATES["clock"].windows(rng, 400)[0]
    trace = uc.Trace.from_members(rng.normal(0.2, 1.0, (400, 6, 1)) + rng.normal(0.0, 0.5, (400, 1, 1)))

    def exposure(risk: float) -> float:
        return mean_exposure(uc.search_panel(clock, states, trace, RiskGreedy(risk=risk), engine="python"))

    match = match_exposure(exposure, 0.4, tolerance=0.005)
    assert match.error <= 0.005
    assert exposure(0.0) > 0.8


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("kind", "settings", "field"),
    [
        (Greedy, dict(order="bound"), "order"),
        (RiskGreedy, dict(prune_risk=0.1), "prune_risk"),
        (RiskRandom, dict(info_bonus=0.1), "info_bonus"),
        (RiskRandom, dict(samples=0), "samples"),
        (RiskRandom, dict(samples=1 << 27, depth=2), "samples x depth"),
        (RiskRandom, dict(seed=-1), "seed"),
        (Random, dict(seed=1 << 64), "seed"),
        (CEM, dict(samples=3, iterations=4), "iterations"),
        (CEM, dict(elites=0), "elites"),
        (CEM, dict(memory=-1), "memory"),
        (CEM, dict(smoothing=math.nan), "smoothing"),
        (MPPI, dict(blur=1.5), "blur"),
        (MPPI, dict(temperature=math.nan), "temperature"),
        (MPPI, dict(temperature=0.0), "temperature"),
        (CEM, dict(warm=((0, 1),)), "warm"),
        (DelayAwareGreedy, dict(delay=3, depth=3), "depth"),
        (DelayAwareGreedy, dict(delay=-1), "delay"),
        (RiskRandom, dict(reward_only=1), "reward_only"),
    ],
)
def test_bad_settings_are_refused(kind: Any, settings: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field):
        kind(**({"depth": 2} if kind is not DelayAwareGreedy else {}) | settings)


def test_other_refusals() -> None:
    with pytest.raises(InputError, match="rng"):
        key_from(7)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="expansions"):
        matched_samples(2, 3)
    with pytest.raises(InputError, match="plans"):
        WarmStart(((0,), (1,)))
    with pytest.raises(InputError, match="plans"):
        WarmStart(((-2,),))
