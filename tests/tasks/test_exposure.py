"""DelayedExposure against enumeration, and both engines against each other."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import some
from tests.tasks.brute import check_bound, check_exact, check_fallback, reachable
from ucsearch.tasks.exposure import DelayedExposure

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tasks" / "delayed-exposure.md"
SPREADS = ("variance", "std", "downside")


def random_case(rng: np.random.Generator) -> tuple[DelayedExposure, object, np.ndarray, float, str]:
    stable = bool(rng.integers(0, 2))
    made = DelayedExposure(
        delay=int(rng.integers(1, 4)),
        changes=((-1.0, 0.0, 1.0), (-2.0, -0.5, 0.0, 1.0))[rng.integers(2)],
        capacity=float(rng.choice([1.0, 2.5])),
        short=bool(rng.integers(0, 2)),
        ramp=float(rng.choice([0.5, 1.0, 2.0])),
        cost=float(rng.choice([0.0, 0.1, 0.6])),
        closing_cost=float(rng.choice([0.0, 0.3])),
        stability_cost=float(rng.choice([0.0, 0.2])) if stable else 0.0,
        change_budget=float(rng.choice([0.0, 1.0, 2.0])) if stable else None,
    )
    pending = rng.choice([-0.5, 0.0, 0.5], made.delay) if made.short else ()
    planned = rng.choice([-1.0, 0.0, 1.0], rng.integers(0, 4)) if made.is_planned else None
    position = 0.0 if made.short and made.delay > 1 else 0.5
    state = made.state(
        position, [float(x) for x in pending] if made.delay < 3 else (), None if planned is None else planned.tolist()
    )
    members = np.round(rng.normal(rng.normal(0.0, 0.5), 1.0, (int(rng.integers(1, 5)), int(rng.integers(1, 5)))), 2)
    return made, state, members, float(rng.choice([0.0, 0.25, 1.0])), SPREADS[rng.integers(3)]


@pytest.mark.filterwarnings("error")
def test_every_instance_passes_check_task() -> None:
    for made in DelayedExposure.instances().values():
        uc.check_task(made.task(), made.state(), outcomes=[-1.0, 0.3, 2.0])


def test_exact_search_equals_enumeration() -> None:
    rng = np.random.default_rng(1)
    for _ in range(some(600)):
        made, state, members, risk, spread = random_case(rng)
        check_exact(made.task(), state, members, risk, spread)


def test_bound_is_never_below_enumeration_and_is_exact_for_pending_changes() -> None:
    rng = np.random.default_rng(2)
    for _ in range(some(600)):
        made, state, members, risk, spread = random_case(rng)
        gaps = check_bound(made.task(), state, members, rng, risk, spread)
        if made.delay >= members.shape[1] and made.closing_cost == 0.0 and not made.is_planned:
            assert max(gaps) < 1e-9


def test_fallback_is_feasible_wherever_an_action_is() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        made, state, members, _, _ = random_case(rng)
        for now, _ in reachable(made.task(), state, members, rng, 2):
            check_fallback(made.task(), now)
    made = DelayedExposure()
    assert made.task().fallback(made.state(2.0), made.params()) == 0.0


def test_a_change_executes_after_the_delay_and_pays_then() -> None:
    made = DelayedExposure(delay=2, cost=0.5)
    task, p, s = made.task(), made.params(), made.state(1.0)
    rewards = []
    for a in (1.0, 0.0, 0.0):
        rewards.append(task.reward(s, a, 10.0, p))
        s = task.step(s, a, 10.0, p)
    assert rewards == [10.0, 10.0, 19.5]
    assert not task.feasible(made.state(2.0, [1.0]), 1.0, p)  # three held or pending is the capacity


def test_decimal_limits_are_met_exactly() -> None:
    made = DelayedExposure(changes=(-0.1, 0.0, 0.1), capacity=0.3, ramp=0.1)
    assert made.task().feasible(made.state(0.1, [0.1]), 0.1, made.params())


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (dict(delay=0), "delay"),
        (dict(changes=(-1.0, 1.0)), "changes"),
        (dict(cost=float("nan")), "cost"),
        (dict(capacity=-1.0), "capacity"),
        (dict(change_budget=-1.0), "change_budget"),
    ],
)
def test_bad_settings_are_refused_by_name(settings: dict[str, object], field: str) -> None:
    with pytest.raises(uc.InputError, match=field):
        DelayedExposure(**settings)  # type: ignore[arg-type]


def test_bad_states_are_refused_by_name() -> None:
    with pytest.raises(uc.InputError, match="pending"):
        DelayedExposure().state(0.0, [0.0, 0.0])
    with pytest.raises(uc.InputError, match="position"):
        DelayedExposure().state(3.0, [1.0])
    with pytest.raises(uc.InputError, match="planned"):
        DelayedExposure().state(planned=[0.0])


def test_the_page_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.S)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == shown
