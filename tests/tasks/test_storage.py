"""Storage against enumeration, and both engines against each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import some
from tests.tasks.brute import check_bound, check_exact, check_fallback, reachable
from ucsearch.tasks.storage.record import Storage

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tasks" / "storage.md"
SPREADS = ("variance", "std", "downside")


def random_case(rng: np.random.Generator) -> tuple[Storage, Any, np.ndarray, float, str]:
    stable = bool(rng.integers(0, 2))
    made = Storage(
        capacity=float(rng.choice([1.0, 3.0])),
        powers=((-1.0, 0.0, 1.0), (-2.0, -0.5, 0.0, 1.5))[rng.integers(2)],
        charge_efficiency=float(rng.choice([0.8, 1.0])),
        discharge_efficiency=float(rng.choice([0.9, 1.0])),
        leak=float(rng.choice([0.0, 0.1, 1.0], p=[0.6, 0.3, 0.1])),
        ramp=[None, 1.0, 2.0][rng.integers(3)],
        cycles=[None, 1.0][rng.integers(2)],
        fee=float(rng.choice([0.0, 0.2])),
        wear=float(rng.choice([0.0, 0.5])),
        end_value=float(rng.choice([0.0, 2.0, 9.0])),
        stability_cost=float(rng.choice([0.1, 0.4])) if stable else 0.0,
        change_budget=float(rng.choice([0.0, 1.0, 3.0])) if stable else None,
    )
    planned = rng.choice([-1.0, 0.0, 1.0], rng.integers(0, 4)).tolist() if stable else None
    level = float(rng.choice([0.0, 0.5, 1.0])) * made.capacity
    members = np.round(rng.normal(rng.choice([0.0, 4.0]), 2.0, (int(rng.integers(1, 5)), int(rng.integers(1, 6)))), 2)
    state = made.state(level, float(rng.choice([-1.0, 0.0, 1.0])), planned=planned)
    return made, state, members, float(rng.choice([0.0, 0.25, 1.0])), SPREADS[rng.integers(3)]


@pytest.mark.filterwarnings("error")
def test_every_instance_passes_check_task() -> None:
    for made in Storage.instances().values():
        uc.check_task(made.task(), made.state(2.0), outcomes=[-1.0, 3.0, 8.0])


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


def test_bound_knows_that_an_empty_store_cannot_sell() -> None:
    made = Storage(capacity=10.0, powers=(-1.0, 0.0, 1.0), charge_efficiency=1.0, discharge_efficiency=1.0)
    prices = np.array([[5.0, 5.0, 5.0, 5.0]])
    gaps = check_bound(made.task(), made.state(0.0), prices, np.random.default_rng(3), 0.0)
    assert max(gaps) < 1e-6


def test_energy_and_money_balance() -> None:
    made = Storage(capacity=4.0, charge_efficiency=0.8, discharge_efficiency=0.5, fee=0.1, wear=0.25, cycles=1.0)
    task, p, s = made.task(), made.params(), made.state(0.0)
    assert task.reward(s, 2.0, 3.0, p) == pytest.approx(-6.2)
    s = task.step(s, 2.0, 3.0, p)
    assert s.level == pytest.approx(1.6)
    assert not task.feasible(s, -1.0, p)  # would draw 2.0
    s = task.step(s, 2.0, 3.0, p)
    assert task.reward(s, -1.0, 3.0, p) == pytest.approx(3.0 - 0.1 - 0.5)
    s = task.step(s, -1.0, 3.0, p)
    assert (s.level, s.discharge_left) == pytest.approx((1.2, 2.0))


def test_fallback_is_feasible_wherever_an_action_is() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        made, state, members, _, _ = random_case(rng)
        for now, _ in reachable(made.task(), state, members, rng, 2):
            check_fallback(made.task(), now)
    made = Storage()
    assert made.task().fallback(made.state(2.0), made.params()) == 0.0


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (dict(powers=(-1.0, 1.0)), "powers"),
        (dict(charge_efficiency=0.0), "charge_efficiency"),
        (dict(discharge_efficiency=1.2), "discharge_efficiency"),
        (dict(leak=float("nan")), "leak"),
        (dict(cycles=-1.0), "cycles"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(uc.InputError, match=field):
        Storage(**settings)


def test_a_level_above_capacity_is_refused() -> None:
    with pytest.raises(uc.InputError, match="level"):
        Storage(capacity=4.0).state(5.0)


def test_the_page_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.S)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == shown
