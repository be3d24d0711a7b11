"""Storage on a lattice against enumeration: hours, rounded levels, targets, cycle prices, end value by window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.tasks.brute import check_bound, check_exact, check_fallback, reachable
from ucsearch.tasks.storage.record import Storage


def random_case(rng: np.random.Generator) -> tuple[Storage, Any, np.ndarray, float, str]:
    target = [None, 0.5, 1.5][rng.integers(3)]
    made = Storage(
        capacity=float(rng.choice([2.0, 3.0])),
        power=float(rng.choice([0.5, 1.0])),
        level_step=float(rng.choice([0.25, 0.5])),
        hours=float(rng.choice([0.25, 0.5, 1.0])),
        charge_efficiency=float(rng.choice([0.8, 1.0])),
        discharge_efficiency=float(rng.choice([0.9, 1.0])),
        leak=float(rng.choice([0.0, 0.1])),
        ramp=[None, 1.0][rng.integers(2)],
        cycles=[None, 0.5, 1.0][rng.integers(3)],
        fee=float(rng.choice([0.0, 0.2])),
        wear=float(rng.choice([0.0, 0.5])),
        end_value=float(rng.choice([0.0, 2.0, 9.0])),
        target=target,
    )
    due = 0 if target is None else int(rng.integers(0, 5))
    state = made.state(float(rng.choice([0.0, 0.6, 1.0])) * made.capacity, due=due)
    members = np.round(rng.normal(rng.choice([0.0, 4.0]), 3.0, (int(rng.integers(1, 4)), int(rng.integers(1, 5)))), 2)
    return made, state, members, float(rng.choice([0.0, 0.25])), ("variance", "std", "downside")[rng.integers(3)]


def test_exact_search_equals_enumeration() -> None:
    rng = np.random.default_rng(11)
    for _ in range(80):
        made, state, members, risk, spread = random_case(rng)
        check_exact(made.task(), state, members, risk, spread)


def test_bound_is_never_below_enumeration() -> None:
    rng = np.random.default_rng(12)
    for _ in range(80):
        made, state, members, risk, spread = random_case(rng)
        check_bound(made.task(), state, members, rng, risk, spread)


def test_fallback_is_feasible_wherever_an_action_is() -> None:
    rng = np.random.default_rng(13)
    for _ in range(60):
        made, state, members, _, _ = random_case(rng)
        for now, _ in reachable(made.task(), state, members, rng, 2):
            check_fallback(made.task(), now)


def test_the_bound_is_the_value_on_a_lattice() -> None:
    made = Storage(capacity=2.0, power=1.0, level_step=0.5, charge_efficiency=0.8, wear=0.5)
    prices = np.array([[5.0, 2.0, 9.0, 1.0]])
    gaps = check_bound(made.task(), made.state(1.0), prices, np.random.default_rng(3), 0.0)
    assert max(gaps) < 1e-6


def test_a_quarter_of_an_hour_moves_a_quarter_of_the_energy() -> None:
    made = Storage(capacity=4.0, powers=(-2.0, 0.0, 2.0), hours=0.25, charge_efficiency=0.8, discharge_efficiency=0.5)
    task, p, s = made.task(), made.params(), made.state(1.0)
    assert task.reward(s, 2.0, 60.0, p) == pytest.approx(-30.0)
    assert task.step(s, 2.0, 60.0, p).level == pytest.approx(1.4)
    assert task.step(s, -2.0, 60.0, p).level == pytest.approx(0.0)
    assert not task.feasible(made.state(0.5), -2.0, p)


def test_levels_are_rounded_down_and_powers_lie_on_the_lattice() -> None:
    made = Storage(capacity=4.0, power=2.0, level_step=0.1)
    p = made.params()
    assert made.state(1.07).level == pytest.approx(1.0)
    assert (len(made.powers), made.powers[-1], made.powers[0]) == (41, 2.0, pytest.approx(-1.995))
    for a in made.powers:
        moved = made.task().step(made.state(2.1), a, 0.0, p).level - 2.1
        assert moved == pytest.approx(a * 0.95 if a > 0.0 else a / 0.95, abs=1e-9)


@pytest.mark.parametrize(("hours", "capacity"), [(0.25, 4.0), (1.0, 4.0), (1.0, 500.0), (24.0, 4.0)])
def test_steps_fit_the_period_where_none_are_given(hours: float, capacity: float) -> None:
    made = Storage(capacity=capacity, power=2.0, hours=hours)
    assert made.powers[-1] == pytest.approx(2.0)
    assert -2.0 <= made.powers[0] <= -1.7
    gain = min(1.9 * hours, capacity)
    p = made.params()
    if made.task().feasible(made.state(0.0), made.powers[-1], p):
        assert made.task().step(made.state(0.0), made.powers[-1], 0.0, p).level == pytest.approx(gain)
    assert capacity / p.level_step <= 1000


def test_a_target_is_kept_whatever_the_prices_say() -> None:
    made = Storage(capacity=4.0, power=1.0, level_step=0.5, target=2.0, charge_efficiency=1.0)
    dear = uc.Trace.from_members(np.full((2, 4), 100.0))
    plan = uc.search(made.task(), made.state(2.0, due=3), dear, uc.Exact(depth=4), engine="python")
    s, levels = made.state(2.0, due=3), []
    for a in plan.path:
        s = made.task().step(s, a, 100.0, made.params())
        levels.append(s.level)
    assert levels[2] >= 2.0
    assert levels[3] < 2.0  # the target is for the end of the third step only
    late = uc.search(made.task(), made.state(0.0, due=1), dear, uc.Exact(depth=4), engine="python")
    assert late.path == ()  # one step is too late


def test_the_end_value_follows_each_forecast() -> None:
    made = Storage(end_price="forecast", discharge_efficiency=0.5, wear=1.0, fee=2.0)
    prices = np.stack([np.full((2, 30), 10.0), np.full((2, 30), 40.0), np.full((2, 30), -5.0)])
    prices[:, :, :6] = 1000.0  # before the last day
    found = made.forecast_columns(uc.Trace.from_members(prices), made.params())["end_value"]
    # One price all day: energy is worth what it sells for; below 0 it is worth nothing.
    assert found.tolist() == pytest.approx([0.5 * 8.0 - 1.0, 0.5 * 38.0 - 1.0, 0.0])
    assert made.task().terminal is not None
    assert Storage().forecast_columns(uc.Trace.from_members(prices), Storage().params()) == {}


def test_energy_is_worth_no_more_than_buying_it_again() -> None:
    made = Storage(capacity=4.0, charge_efficiency=0.8, discharge_efficiency=0.8, end_price="forecast")
    night, day = [10.0] * 12, [50.0] * 12
    found = made.forecast_columns(uc.Trace.from_members(np.array([[night + day], [day + night]])), made.params())
    assert found["end_value"].tolist() == pytest.approx([10.0 / 0.8, 50.0 * 0.8])


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (dict(power=2.0, level_step=0.0), "level_step"),
        (dict(power=0.0), "power"),
        (dict(power=2.0, level_step=1e-6), "level_step"),
        (dict(hours=0.0), "hours"),
        (dict(hours=float("nan")), "hours"),
        (dict(target=5.0), "target"),
        (dict(end_price="best"), "end_price"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(uc.InputError, match=field):
        Storage(**settings)


def test_a_deadline_needs_a_target() -> None:
    with pytest.raises(uc.InputError, match="due"):
        Storage().state(1.0, due=3)
