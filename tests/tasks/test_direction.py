"""Direction against enumeration, and both engines against each other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import some
from tests.tasks.brute import check_bound, check_exact, check_fallback, edge, reachable
from ucsearch.tasks.direction import Direction

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tasks" / "direction.md"
SPREADS = ("variance", "std", "downside")


def random_case(rng: np.random.Generator) -> tuple[Direction, Any, np.ndarray, float, str]:
    stable, on_change = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    made = Direction(
        cost=float(rng.choice([0.0, 0.1, 0.7])),
        charge="change" if on_change else "exposure",
        short=bool(rng.integers(0, 2)),
        close_at_end=on_change and bool(rng.integers(0, 2)),
        stability_cost=float(rng.choice([0.1, 0.4])) if stable else 0.0,
        change_budget=float(rng.choice([0.0, 1.0, 2.0])) if stable else None,
    )
    planned = rng.choice([-1.0, 0.0, 1.0], rng.integers(0, 4)).tolist() if stable else None
    members = np.round(rng.normal(rng.normal(0.0, 0.5), 1.0, (int(rng.integers(1, 5)), int(rng.integers(1, 6)))), 2)
    state = made.state(float(rng.integers(-1, 2)), planned)
    return made, state, members, float(rng.choice([0.0, 0.25, 1.0])), SPREADS[rng.integers(3)]


@pytest.mark.filterwarnings("error")
def test_every_instance_passes_check_task() -> None:
    for made in Direction.instances().values():
        uc.check_task(made.task(), made.state(1.0), outcomes=[-1.0, 0.3, 2.0])


def test_exact_search_equals_enumeration() -> None:
    rng = np.random.default_rng(1)
    for _ in range(some(600)):
        made, state, members, risk, spread = random_case(rng)
        check_exact(made.task(), state, members, risk, spread)


def test_bound_is_never_below_enumeration_and_exact_without_a_plan() -> None:
    rng = np.random.default_rng(2)
    for _ in range(some(600)):
        made, state, members, risk, spread = random_case(rng)
        gaps = check_bound(made.task(), state, members, rng, risk, spread)
        if not made.is_planned:
            assert max(gaps) < 1e-9


def test_cost_on_exposure_collapses_to_the_best_single_step() -> None:
    rng = np.random.default_rng(3)
    made = Direction(charge="exposure")
    task, state = made.task(), made.state()
    for _ in range(100):
        members = rng.normal(0.0, 0.4, (4, 4))
        plan = uc.search(task, state, uc.Trace.from_members(members), uc.Exact(depth=4, risk=0.5), engine="python")
        single = {a: edge(task, state, a, members, 0, 0.5, "std", task.params) for a in task.actions}
        assert plan.action == max(single, key=lambda a: single[a])
    assert task.step(state, 1.0, 0.0, task.params) == task.step(state, -1.0, 0.0, task.params)


def test_fallback_is_feasible_wherever_an_action_is() -> None:
    rng = np.random.default_rng(4)
    for _ in range(100):
        made, state, members, _, _ = random_case(rng)
        for now, _ in reachable(made.task(), state, members, rng, 2):
            check_fallback(made.task(), now)
    held = Direction()
    assert held.task().fallback(held.state(-1.0), held.params()) == -1.0
    flat = Direction(charge="exposure")
    assert flat.task().fallback(flat.state(-1.0), flat.params()) == 0.0


def test_bad_settings_and_states_are_refused_by_name() -> None:
    with pytest.raises(uc.InputError, match="charge"):
        Direction(charge="both")  # type: ignore[arg-type]
    with pytest.raises(uc.InputError, match="close_at_end"):
        Direction(charge="exposure", close_at_end=True)
    with pytest.raises(uc.InputError, match="cost"):
        Direction(cost=float("nan"))
    with pytest.raises(uc.InputError, match="direction"):
        Direction().state(0.5)


def test_the_page_shows_what_its_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.S)
    exec(compile(code, PAGE.name, "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == shown
