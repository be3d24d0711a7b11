"""Intervention against enumeration, and both engines against each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import some
from tests.tasks.brute import check_bound, check_exact, check_fallback, reachable
from ucsearch.tasks.intervention import Intervention

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tasks" / "intervention.md"
SPREADS = ("variance", "std", "downside")


def random_case(rng: np.random.Generator) -> tuple[Intervention, Any, np.ndarray, float, str]:
    stable, limited = bool(rng.integers(0, 2)), bool(rng.integers(0, 4))
    made = Intervention(
        doses=((0.0, 1.0), (0.0, 0.5, 2.0))[rng.integers(2)],
        budget=float(rng.choice([0.0, 1.0, 2.5])) if limited else None,
        cooldown=int(rng.integers(0, 3)),
        delay=int(rng.integers(0, 3)),
        effect=((0.9,), (0.3, 0.6), (0.5, 0.0, 0.4))[rng.integers(3)],
        cost=float(rng.choice([0.0, 0.5, 2.0])),
        fixed_cost=float(rng.choice([0.0, 0.5])),
        budget_value=float(rng.choice([0.0, 0.7])) if limited else 0.0,
        stability_cost=float(rng.choice([0.1, 0.4])) if stable else 0.0,
        change_budget=float(rng.choice([0.0, 1.0, 3.0])) if stable else None,
    )
    planned = rng.choice([0.0, 1.0], rng.integers(0, 4)).tolist() if stable else None
    state = made.state(wait=int(rng.integers(0, 3)), given=rng.choice([0.0, 1.0], 2).tolist(), planned=planned)
    members = np.round(rng.normal(rng.choice([0.5, 3.0]), 2.0, (int(rng.integers(1, 5)), int(rng.integers(1, 7)))), 2)
    return made, state, members, float(rng.choice([0.0, 0.25, 1.0])), SPREADS[rng.integers(3)]


@pytest.mark.filterwarnings("error")
def test_every_instance_passes_check_task() -> None:
    for made in Intervention.instances().values():
        uc.check_task(made.task(), made.state(), outcomes=[-1.0, 0.5, 8.0])


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


def test_bound_is_exact_for_single_doses_that_do_not_overlap() -> None:
    rng = np.random.default_rng(3)
    made = Intervention(effect=(0.5,), cooldown=1, delay=1, cost=1.0)
    for _ in range(50):
        members = np.abs(rng.normal(2.0, 2.0, (3, 5)))
        gaps = check_bound(made.task(), made.state(), members, rng, 0.5)
        assert max(gaps) < 1e-9


def test_budget_cooldown_and_delayed_effect() -> None:
    made = Intervention(budget=2.0, cooldown=2, delay=1, effect=(0.5, 0.25), cost=1.0)
    task, p, s = made.task(), made.params(), made.state()
    rewards, allowed = [], []
    for a in (1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0):
        allowed.append(task.feasible(s, 1.0, p))
        rewards.append(task.reward(s, a, 8.0, p))
        s = task.step(s, a, 8.0, p)
    assert rewards == [-9.0, -4.0, -6.0, -9.0, -4.0, -6.0, -8.0]
    assert allowed == [True, False, False, True, False, False, False]
    strong = Intervention(doses=(0.0, 1.0, 2.0), delay=0, effect=(0.8,), cost=0.0)
    assert strong.task().reward(strong.state(), 2.0, 8.0, strong.params()) == 0.0  # no more than all harm is averted


def test_fallback_is_feasible_wherever_an_action_is() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        made, state, members, _, _ = random_case(rng)
        for now, _ in reachable(made.task(), state, members, rng, 2):
            check_fallback(made.task(), now)
    made = Intervention()
    assert made.task().fallback(made.state(), made.params()) == 0.0


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (dict(doses=(1.0, 2.0)), "doses"),
        (dict(doses=(0.0,)), "doses"),
        (dict(effect=()), "effect"),
        (dict(effect=(1.5,)), "effect"),
        (dict(budget_value=1.0), "budget_value"),
        (dict(cost=float("nan")), "cost"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(uc.InputError, match=field):
        Intervention(**settings)


def test_bad_states_are_refused_by_name() -> None:
    with pytest.raises(uc.InputError, match="wait"):
        Intervention().state(wait=-1)
    with pytest.raises(uc.InputError, match="given"):
        Intervention().state(given=[-1.0])


def test_the_page_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.S)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == shown
