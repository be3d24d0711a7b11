"""CapacityPlan against enumeration, and both engines against each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import some
from tests.tasks.brute import check_bound, check_exact, check_fallback, reachable
from ucsearch.tasks.capacity import CapacityPlan

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tasks" / "capacity-plan.md"
SPREADS = ("variance", "std", "downside")


def random_case(rng: np.random.Generator) -> tuple[CapacityPlan, Any, np.ndarray, float, str]:
    stable = bool(rng.integers(0, 2))
    made = CapacityPlan(
        startup_delay=int(rng.integers(0, 4)),
        minimum_up_time=int(rng.integers(1, 5)),
        changes=((-1.0, 0.0, 1.0), (-3.0, -1.0, 0.0, 2.0))[rng.integers(2)],
        unit_output=float(rng.choice([1.0, 1.5])),
        smallest=int(rng.integers(0, 3)),
        largest=int(rng.integers(4, 8)),
        ramp=[None, 1.0, 2.0][rng.integers(3)],
        shortage=float(rng.choice([0.0, 5.0])),
        idle=float(rng.choice([0.0, 1.0])),
        running=float(rng.choice([0.0, 0.5])),
        start_cost=float(rng.choice([0.0, 2.0])),
        stability_cost=float(rng.choice([0.1, 0.4])) if stable else 0.0,
        change_budget=float(rng.choice([0.0, 1.0, 3.0])) if stable else None,
    )
    planned = rng.choice([-1.0, 0.0, 1.0], rng.integers(0, 4)).tolist() if stable else None
    starting = [1] if made.startup_delay and rng.integers(0, 2) else []
    young = [int(x) for x in rng.integers(0, 2, made.minimum_up_time - 1)]
    state = made.state(int(rng.integers(sum(young), 4)), starting, young, planned)
    members = np.round(rng.normal(rng.choice([2.0, 5.0]), 2.0, (int(rng.integers(1, 5)), int(rng.integers(1, 6)))), 2)
    return made, state, members, float(rng.choice([0.0, 0.25, 1.0])), SPREADS[rng.integers(3)]


@pytest.mark.filterwarnings("error")
def test_every_instance_passes_check_task() -> None:
    for made in CapacityPlan.instances().values():
        uc.check_task(made.task(), made.state(3), outcomes=[-1.0, 3.0, 18.0])


def test_exact_search_equals_enumeration() -> None:
    rng = np.random.default_rng(1)
    for _ in range(some(600)):
        made, state, members, risk, spread = random_case(rng)
        check_exact(made.task(), state, members, risk, spread)


def test_bound_is_never_below_enumeration() -> None:
    rng = np.random.default_rng(2)
    for _ in range(some(600)):
        made, state, members, risk, spread = random_case(rng)
        check_bound(made.task(), state, members, rng, risk, spread)


def test_bound_knows_that_starts_take_time() -> None:
    made = CapacityPlan(startup_delay=3, changes=(0.0, 1.0), largest=5)
    demand = np.array([[4.0, 4.0, 4.0]])
    gaps = check_bound(made.task(), made.state(1), demand, np.random.default_rng(3), 0.0)
    assert max(gaps) < 1e-9


def test_units_enter_service_late_and_stay_their_time() -> None:
    made = CapacityPlan(startup_delay=2, minimum_up_time=3, start_cost=1.0, shortage=10.0, idle=1.0)
    task, p, s = made.task(), made.params(), made.state(0)
    served, may_stop = [], []
    for a in (1.0, 0.0, 0.0, 0.0, 0.0, 0.0):
        may_stop.append(task.feasible(s, -1.0, p))
        served.append(task.reward(s, a, 1.0, p))
        s = task.step(s, a, 1.0, p)
    assert served == [-11.0, -10.0, 0.0, 0.0, 0.0, 0.0]
    assert may_stop == [False, False, False, False, False, True]  # in service in steps 2, 3 and 4


def test_fallback_is_feasible_wherever_an_action_is() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        made, state, members, _, _ = random_case(rng)
        for now, _ in reachable(made.task(), state, members, rng, 2):
            check_fallback(made.task(), now)
    made = CapacityPlan()
    assert made.task().fallback(made.state(2), made.params()) == 0.0


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (dict(changes=(-1.0, 1.0)), "changes"),
        (dict(changes=(0.0, 0.5)), "changes"),
        (dict(minimum_up_time=0), "minimum_up_time"),
        (dict(smallest=11), "smallest"),
        (dict(idle=float("nan")), "idle"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(uc.InputError, match=field):
        CapacityPlan(**settings)


def test_bad_states_are_refused_by_name() -> None:
    made = CapacityPlan(minimum_up_time=2)
    with pytest.raises(uc.InputError, match="online"):
        made.state(10, [1])
    with pytest.raises(uc.InputError, match="online"):
        made.state(0, [], [1])
    with pytest.raises(uc.InputError, match="starting"):
        made.state(0, [1, 1])


def test_the_page_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.S)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == shown


def test_the_lattice_changes_no_expected_earning() -> None:
    """Nine points a step instead of sixty, and the same values of every first action as the block means."""
    rng = np.random.default_rng(5)
    plan = CapacityPlan(startup_delay=1, minimum_up_time=2, unit_output=1.5, start_cost=0.5, largest=6)
    trace = uc.Trace.from_members(rng.gamma(4.0, 1.0, (60, 4)))
    made = plan.lattice(trace, points=6)
    assert made.unit == 1.5
    assert all(y[0] % 1.5 == 0.0 for points in made.trace.law().points for y in points)
    policy = uc.Exact(depth=4, mode="closed")
    state = plan.state(2)
    found = uc.search(made.plan.task(), state, made.trace, policy, engine="python")
    assert found.proved
    assert found.reached * 5 < found.expansions
    blocks = np.sort(trace.members[0, :, :, 0], axis=0).reshape(6, 10, 4).mean(axis=1)
    same = uc.search(plan.task(), state, uc.Trace.from_members(blocks, coupling="independent"), policy, engine="python")
    for own, other in zip(found.first_actions, same.first_actions, strict=True):
        assert own.score == pytest.approx(other.score, rel=1e-9)
    with pytest.raises(uc.InputError, match="unit"):
        plan.lattice(trace, unit=0.0)
    with pytest.raises(uc.InputError, match="trace"):
        plan.lattice(uc.Trace.from_scores(np.zeros((4, 5)), np.zeros((4, 5))))
