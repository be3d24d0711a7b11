"""Long-run average costs: chains that can be worked out by hand, bounds that hold, and what is refused."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.closed_loop import average
from ucsearch.engine.closed_loop.average import average_cost
from ucsearch.errors import InputError
from ucsearch.policies import Run

PLAIN = Run(engine="python")


class At(NamedTuple):
    x: float


def chain(step: Any, reward: Any, actions: Any = (0.0, 1.0), feasible: Any = lambda s, a, p: True) -> uc.Task:
    return uc.Task(
        name="chain", state=At, actions=actions, feasible=feasible, step=step, reward=reward, fallback=lambda s, p: 0.0
    )


def law(*steps: list[float]) -> uc.Trace:
    """Equally likely outcomes of each step of the period."""
    pmfs = [(values, [1.0 / len(values)] * len(values)) for values in steps]
    return uc.Trace.from_distribution(pmf=pmfs).declare("independent")


def test_the_better_of_two_ways_for_ever() -> None:
    """Stay at 0 and earn 1, or go round 0, 1, 2 and earn 6 once in three steps: 2 a step."""
    task = chain(
        lambda s, a, y, p: At(0.0) if a == 0.0 or s.x == 2.0 else At(s.x + 1.0),
        lambda s, a, y, p: 1.0 if a == 0.0 and s.x == 0.0 else 6.0 if s.x == 2.0 else 0.0,
        feasible=lambda s, a, p: s.x == 0.0 or a == 1.0,
    )
    found = average_cost(task, law([0.0]), At(0.0), run=PLAIN)
    assert found.converged
    assert found.status == "converged"
    assert found.low <= -2.0 <= found.high
    assert found.high - found.low <= 1e-6 * 2.0
    assert found.cost == pytest.approx(-2.0, rel=1e-6)
    assert [found.action(At(x)) for x in (0.0, 1.0, 2.0)] == [1.0, 1.0, 1.0]
    assert found.states == 3
    table = found.table("pandas")
    assert table["recurrent"].tolist() == [True, True, True]
    assert list(table.columns) == ["phase", "x", "action", "recurrent"]


def test_a_chance_of_breaking_is_worked_out_by_hand() -> None:
    """A machine earns 10 a step while it runs and breaks with probability 1/4; a repair costs 4 and takes the step."""
    task = chain(
        lambda s, a, y, p: At(0.0) if s.x == 0.0 and y > 0.5 else At(1.0) if s.x == 0.0 else At(1.0 - a),
        lambda s, a, y, p: 10.0 if s.x == 0.0 else -4.0 * a,
    )
    odds = uc.Trace.from_distribution(pmf=([0.0, 1.0], [0.25, 0.75]), horizon=1).declare("independent")
    found = average_cost(task, odds, At(0.0), run=PLAIN)
    assert found.cost == pytest.approx(-(0.8 * 10.0 - 0.2 * 4.0), rel=1e-6)  # it runs four steps of five


def test_a_law_of_two_steps_has_two_phases() -> None:
    """What earns depends on the phase: 3 at phase 0, 5 at phase 1, each a step."""
    task = uc.Task(
        name="phases", state=At, actions=[0.0, 1.0], feasible=lambda s, a, p: True, fallback=lambda s, p: 0.0,
        step=lambda s, a, y, p: At(y), reward=lambda s, a, y, h, p: (3.0 if a == 0.0 else 0.0) if h == 0 else 5.0 * a,
    )  # fmt: skip
    found = average_cost(task, law([0.0], [1.0, 2.0]), At(0.0), run=PLAIN)
    assert found.cost == pytest.approx(-4.0, rel=1e-6)
    assert found.action(At(1.0), 0) == 0.0
    assert found.action(At(0.0), 1) == 1.0
    with pytest.raises(InputError, match="reached at phase 1"):
        found.action(At(2.0), 1)


def test_a_chain_that_turns_in_circles_converges() -> None:
    task = chain(lambda s, a, y, p: At(1.0 - s.x), lambda s, a, y, p: 10.0 * s.x, actions=[0.0])
    assert average_cost(task, law([0.0]), At(0.0), run=PLAIN).cost == pytest.approx(-5.0, rel=1e-6)


def test_bounds_hold_before_they_meet_and_say_so() -> None:
    rng = np.random.default_rng(4)
    reward = rng.normal(size=(6, 2))
    after = rng.integers(0, 6, (6, 2, 3))
    task = chain(
        lambda s, a, y, p: At(float(after[int(s.x), int(a), int(y)])),
        lambda s, a, y, p: float(reward[int(s.x), int(a)]),
    )
    odds = law([0.0, 1.0, 2.0])
    exact = average_cost(task, odds, At(0.0), run=PLAIN)
    assert exact.converged
    for passes in (1, 3, 9):
        rough = average_cost(task, odds, At(0.0), passes=passes, run=PLAIN)
        assert (rough.passes, rough.converged, rough.status) == (passes, False, "not_converged")
        assert rough.low <= exact.low <= exact.high <= rough.high


def test_the_best_policy_is_no_worse_than_any_fixed_one() -> None:
    """Four states, two actions: sixteen policies, each by its stationary distribution."""
    rng = np.random.default_rng(8)
    reward, after = rng.normal(size=(4, 2)), rng.integers(0, 4, (4, 2, 3))
    task = chain(
        lambda s, a, y, p: At(float(after[int(s.x), int(a), int(y)])),
        lambda s, a, y, p: float(reward[int(s.x), int(a)]),
    )
    best = -math.inf
    for code in range(16):
        own = [(code >> i) & 1 for i in range(4)]
        moves = np.zeros((4, 4))
        for i in range(4):
            for y in range(3):
                moves[i, after[i, own[i], y]] += 1 / 3
        often = np.linalg.matrix_power(0.5 * (moves + np.eye(4)), 4096)[0]
        best = max(best, float(often @ [reward[i, own[i]] for i in range(4)]))
    found = average_cost(task, law([0.0, 1.0, 2.0]), At(0.0), run=PLAIN)
    assert found.cost == pytest.approx(-best, abs=2e-6)


def test_risk_charges_the_worst_share() -> None:
    task = chain(lambda s, a, y, p: s, lambda s, a, y, p: y if a == 1.0 else 0.9)
    odds = law([0.0, 1.0, 2.0, 3.0])
    assert average_cost(task, odds, At(0.0), run=PLAIN).cost == pytest.approx(-1.5)
    charged = average_cost(task, odds, At(0.0), risk=0.5, tail=0.5, run=PLAIN)
    assert charged.cost == pytest.approx(-(0.5 * 1.5 + 0.5 * 0.5))
    averse = average_cost(task, odds, At(0.0), risk=0.9, tail=0.25, run=PLAIN)
    assert (averse.cost, averse.action(At(0.0))) == (pytest.approx(-0.9), 0.0)


def test_states_that_are_left_for_good_do_not_count() -> None:
    """A start that loses 1,000 once does not change what a step costs in the long run."""
    task = chain(lambda s, a, y, p: At(0.0), lambda s, a, y, p: -1000.0 if s.x == 9.0 else 1.0)
    found = average_cost(task, law([0.0]), At(9.0), run=PLAIN)
    assert found.cost == pytest.approx(-1.0)
    assert found.table("pandas")["recurrent"].tolist() == [False, True]


STOCK = chain(
    lambda s, a, y, p: At(s.x + a - y), lambda s, a, y, p: -abs(s.x + a - y), actions=[0.0, 1.0, 2.0, 3.0]
)  # fmt: skip
DEMAND = law([0.0, 1.0, 2.0])


def test_without_bounds_the_field_that_grows_is_named() -> None:
    with pytest.raises(InputError, match=r"state\.x: saw values from .* and no end to them") as caught:
        average_cost(STOCK, DEMAND, At(0.0), node_budget=2_000, run=PLAIN)
    assert "within={'x': (low, high)}" in str(caught.value)


def test_ranges_bound_it_and_must_not_bind() -> None:
    found = average_cost(STOCK, DEMAND, At(0.0), within={"x": (-4.0, 4.0)}, run=PLAIN)
    assert found.cost == pytest.approx(2 / 3)  # order back up to 1
    assert [found.action(At(x)) for x in (-1.0, 0.0, 1.0)] == [2.0, 1.0, 0.0]
    wider = average_cost(STOCK, DEMAND, At(0.0), within={"x": (-9.0, 9.0)}, run=PLAIN)
    assert wider.cost == pytest.approx(found.cost, rel=1e-6)
    with pytest.raises(InputError, match=r"within\.x: saw a best policy that reaches -1, expected a wider range"):
        average_cost(STOCK, DEMAND, At(0.0), within={"x": (-1.0, 4.0)}, run=PLAIN)
    with pytest.raises(InputError, match="some policy stays in these ranges"):
        average_cost(STOCK, DEMAND, At(9.0), within={"x": (-4.0, 4.0)}, run=PLAIN)
    for within in ({"y": (0.0, 1.0)}, {"x": (1.0, 1.0)}):
        with pytest.raises(InputError, match="within"):
            average_cost(STOCK, DEMAND, At(0.0), within=within, run=PLAIN)


def test_a_dead_end_is_refused_by_its_state() -> None:
    task = dataclasses.replace(STOCK, feasible=lambda s, a, p: s.x != -3.0)
    with pytest.raises(InputError, match="x -3 at phase 0, where no action is allowed"):
        average_cost(task, DEMAND, At(0.0), within={"x": (-4.0, 4.0)}, run=PLAIN)


@pytest.mark.parametrize(
    "given",
    [
        dict(law=uc.Trace.from_members([[1.0], [2.0]])),
        dict(law=uc.Trace.from_members([[1.0, 1.0], [1.0, 2.0]], coupling="tree", node=[[0, 0], [0, 1]])),
        dict(risk=1.5), dict(tail=0.0),
    ],
)  # fmt: skip
def test_laws_and_risks_of_other_kinds_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        average_cost(**{"task": STOCK, "law": DEMAND, "state": At(0.0), "within": {"x": (-4.0, 4.0)}, **given})


def test_compiled_rules_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """From some number of transitions on the rules are compiled; here at once."""
    plain = average_cost(STOCK, DEMAND, At(0.0), within={"x": (-4.0, 4.0)}, run=PLAIN)
    monkeypatch.setattr(average, "_WORTH_COMPILING", 5)
    mixed = average_cost(STOCK, DEMAND, At(0.0), within={"x": (-4.0, 4.0)})
    assert (mixed.low, mixed.high, mixed.passes) == (plain.low, plain.high, plain.passes)


# ---------------------------------------------------------------- two suppliers (Whittemore and Saunders 1977)


class Stock(NamedTuple):
    level: float
    open: tuple[float, ...]


WIDE = 8.0  # an order of r regular and e expedited units is 8 r + e


def dual_sourcing(expedited: float, lead: int) -> uc.Task:
    """Costs of both orders, holding 5 and waiting 495 a unit; expedited units arrive before the same demand."""

    def step(s: Stock, a: float, y: float, p: Any) -> Stock:
        regular = math.floor(a / WIDE)
        return Stock(s.level + s.open[0] + (a - WIDE * regular) - y, (*s.open[1:], 1.0 * regular))

    def reward(s: Stock, a: float, y: float, p: Any) -> float:
        regular = math.floor(a / WIDE)
        fast = a - WIDE * regular
        left = s.level + s.open[0] + fast - y
        return -(100.0 * regular + expedited * fast + (5.0 * left if left > 0.0 else -495.0 * left))

    return uc.Task(
        name="two suppliers", state=Stock, actions=[WIDE * r + e for r in range(6) for e in range(5)],
        feasible=lambda s, a, p: True, step=step, reward=reward, fallback=lambda s, p: 0.0,
    )  # fmt: skip


@pytest.mark.parametrize(("expedited", "printed"), [(105.0, 216.7698), (110.0, 219.7333)])
def test_dual_sourcing_costs_what_a_memoised_recursion_says(expedited: float, printed: float) -> None:
    found = average_cost(
        dual_sourcing(expedited, 2), law([0.0, 1.0, 2.0, 3.0, 4.0]), Stock(0.0, (0.0, 0.0)),
        within={"level": (-2.0, 10.0)}, run=PLAIN,
    )  # fmt: skip
    assert round(found.cost, 3) == round(printed, 3)
    assert found.low <= printed + 5e-5
    assert printed - 5e-5 <= found.high


@pytest.mark.slow
@pytest.mark.parametrize(("expedited", "printed"), [(105.0, 216.8767), (110.0, 220.3411)])
def test_dual_sourcing_at_lead_time_three(expedited: float, printed: float) -> None:
    found = average_cost(
        dual_sourcing(expedited, 3),
        law([0.0, 1.0, 2.0, 3.0, 4.0]),
        Stock(0.0, (0.0,) * 3),
        within={"level": (-4.0, 14.0)},
    )
    assert found.low - 5e-5 <= printed <= found.high + 5e-5
    assert found.converged
