"""Exact search against OR-Tools CP-SAT, an independent solver, on instances whose numbers are all whole.

Two members of equal weight and spread="std" keep risk linear: the deviation is half the absolute difference. Scores are
compared after multiplying by four (risk 0.5), so the solver works in integers and the comparison is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES, Position, PositionParams, Stock, StockParams

cp_model = pytest.importorskip("ortools.sat.python.cp_model", reason="OR-Tools is not installed")

pytestmark = pytest.mark.slow

SCALE = 4
BIG = 10_000


@dataclass(frozen=True)
class Instance:
    """A lost-sales problem with lead time 2 in whole numbers."""

    state: Stock
    params: StockParams
    demand: np.ndarray  # (2, d); the two members differ by an even number, so that their mean is whole

    @property
    def trace(self) -> uc.Trace:
        return uc.Trace.from_members(self.demand)


def random_instance(rng: np.random.Generator, depth: int) -> Instance:
    low = rng.integers(0, 7, depth)
    demand = np.stack([low, low + 2 * rng.integers(0, 4, depth)])
    swap = rng.random(depth) < 0.5
    demand[:, swap] = demand[::-1, swap]
    on_hand, first, second, last = rng.integers(0, 4, 4).tolist()
    state = Stock(float(on_hand), (2.0 * first, 2.0 * second), 2.0 * last)
    params = StockParams(
        capacity=float(rng.integers(6, 22)),
        ramp=2.0 * int(rng.integers(1, 4)),
        holding=float(rng.integers(0, 3)),
        shortage=float(rng.integers(1, 10)),
        unit=float(rng.integers(0, 2)),
    )
    return Instance(state, params, demand)


class Model:
    """The same rules as constraints; one roll of the automaton per sequence of outcomes."""

    def __init__(self, instance: Instance, depth: int) -> None:
        self.model: Any = cp_model.CpModel()
        self.instance, self.depth = instance, depth
        domain = cp_model.Domain.FromValues([int(a) for a in TEMPLATES["stock"].task.actions])
        self.orders = [self.model.NewIntVarFromDomain(domain, f"a{h}") for h in range(depth)]
        last = int(instance.state.last)
        for order in self.orders:
            self.model.Add(order - last <= int(instance.params.ramp))
            self.model.Add(last - order <= int(instance.params.ramp))
            last = order

    def positive(self, expression: Any) -> Any:
        out = self.model.NewIntVar(0, BIG, "")
        self.model.AddMaxEquality(out, [expression, 0])
        return out

    def roll(self, demand: list[int]) -> tuple[list[Any], list[Any]]:
        """Stock available at each step, and the reward of each step, when these outcomes move the state."""
        p = self.instance.params
        on_hand: Any = int(self.instance.state.on_hand)
        pipeline: list[Any] = [int(x) for x in self.instance.state.pipeline]
        available = []
        for h, order in enumerate(self.orders):
            self.model.Add(on_hand + sum(pipeline) + order <= int(p.capacity))
            here = on_hand + pipeline[0]
            available.append(here)
            on_hand = self.positive(here - demand[h])
            pipeline = [*pipeline[1:], order]
        return available, [self.reward(here, self.orders[h], demand[h]) for h, here in enumerate(available)]

    def reward(self, available: Any, order: Any, demand: int) -> Any:
        p = self.instance.params
        left, short = self.positive(available - demand), self.positive(demand - available)
        return -int(p.unit) * order - int(p.holding) * left - int(p.shortage) * short

    def distance(self, a: Any, b: Any) -> Any:
        out = self.model.NewIntVar(0, BIG, "")
        self.model.AddAbsEquality(out, a - b)
        return out

    def solve(self, objective: Any, first: int | None) -> float | None:
        """The best score that starts with `first`; None when there is none."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        if first is not None:
            self.model.Add(self.orders[0] == first)
        self.model.Maximize(objective)
        status = solver.Solve(self.model)
        if status == cp_model.INFEASIBLE:
            return None
        assert status == cp_model.OPTIMAL
        return float(solver.ObjectiveValue()) / SCALE


def solve(instance: Instance, depth: int, mode: str, first: int | None) -> float | None:
    """max R - 0.5 U, four times: 4 R - 2 U, with U = |difference| / 2 of rewards (mean) or returns (members)."""
    model = Model(instance, depth)
    one, two = ([int(x) for x in row] for row in instance.demand)
    if mode == "members":
        _, r1 = model.roll(one)
        _, r2 = model.roll(two)
        total1, total2 = sum(r1), sum(r2)
        return model.solve(2 * (total1 + total2) - model.distance(total1, total2), first)
    mean = [(a + b) // 2 for a, b in zip(one, two, strict=True)]
    available, rewards = model.roll(mean)
    objective: Any = 0
    for h in range(depth):
        edge = [model.reward(available[h], model.orders[h], demand[h]) for demand in (one, two)]
        objective = objective + 4 * rewards[h] - model.distance(*edge)
    return model.solve(objective, first)


@pytest.mark.parametrize("order", ["score", "bound"])
@pytest.mark.parametrize(("mode", "depth"), [("mean", 4), ("mean", 7), ("members", 4), ("members", 6)])
def test_exact_search_agrees_on_lost_sales(mode: Any, depth: int, order: Any) -> None:
    rng = np.random.default_rng([depth, len(mode)])
    task = TEMPLATES["stock"].task
    dead = risky = 0
    for _ in range(25):
        instance = random_instance(rng, depth)
        policy = uc.Exact(depth=depth, mode=mode, risk=0.5, spread="std", every_action=True, order=order)
        plan = uc.search(task, instance.state, instance.trace, policy, params=instance.params)
        best = solve(instance, depth, mode, None)
        if best is None:
            dead += 1
            assert plan.status is uc.Status.DEAD_END
            continue
        assert plan.status is uc.Status.PROVED
        assert plan.score == pytest.approx(best, abs=1e-9)
        risky += plan.uncertainty > 0.0
        for row in plan.first_actions:
            value = solve(instance, depth, mode, int(row.action))
            if value is None:
                assert row.dead or not row.feasible
            else:
                assert row.exact
                assert row.score == pytest.approx(value, abs=1e-9)
    assert risky > 5
    assert dead > 0


def position_scores(state: Position, longest: int, g: np.ndarray, first: int | None) -> float | None:
    """Hold -1, 0 or 1; a position other than 0 may not be held longer than `longest` more steps."""
    depth = g.shape[0]
    model: Any = cp_model.CpModel()
    choose = [[model.NewBoolVar("") for _ in range(3)] for _ in range(depth)]
    ages: list[Any] = [int(state.age)]
    held = [[int(state.held) == a for a in (-1, 0, 1)]]
    for h in range(depth):
        model.AddExactlyOne(choose[h])
        stays = model.NewBoolVar("")
        age = model.NewIntVar(0, 99, "")
        for i in range(3):
            before = held[h][i]
            # The same action as before: stay, and grow older; otherwise start anew.
            if isinstance(before, bool):
                model.Add(stays == int(before)).OnlyEnforceIf(choose[h][i])
            else:
                model.Add(stays == before).OnlyEnforceIf(choose[h][i])
        for i in (0, 2):
            model.Add(ages[h] < longest).OnlyEnforceIf([choose[h][i], stays])
        model.Add(age == ages[h] + 1).OnlyEnforceIf(stays)
        model.Add(age == 0).OnlyEnforceIf(stays.Not())
        ages.append(age)
        held.append(choose[h])
    if first is not None:
        model.Add(choose[0][first] == 1)
    model.Maximize(sum(int(g[h, i]) * choose[h][i] for h in range(depth) for i in range(3)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.Solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL
    return float(solver.ObjectiveValue())


@pytest.mark.parametrize("order", ["score", "bound"])
def test_exact_search_agrees_on_scores(order: Any) -> None:
    rng = np.random.default_rng(8)
    task = TEMPLATES["position"].task
    for _ in range(25):
        depth = int(rng.integers(2, 10))
        q, u = rng.integers(-9, 10, (depth, 3)), rng.integers(0, 5, (depth, 3))
        state = Position(float(rng.integers(-1, 2)), float(rng.integers(0, 3)))
        longest = int(rng.integers(0, 4))
        trace = uc.Trace.from_scores(q, u, np.zeros(depth))
        policy = uc.Exact(depth=depth, mode="scores", risk=2.0, every_action=True, order=order)
        plan = uc.search(task, state, trace, policy, params=PositionParams(float(longest)))
        g = q - 2 * u
        assert plan.status is uc.Status.PROVED  # action 0 is always allowed
        assert plan.score == position_scores(state, longest, g, None)
        for i, row in enumerate(plan.first_actions):
            value = position_scores(state, longest, g, i)
            if value is None:
                assert row.dead or not row.feasible
            else:
                assert row.score == value
