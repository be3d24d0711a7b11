"""Every built-in task by both engines: its rules compiled, and the kernels' text for whole searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.simulate import Simulator
from ucsearch.tasks import TASKS, CapacityPlan, DelayedExposure, Direction, Intervention, Storage

Rng = np.random.Generator


def _exposure(made: DelayedExposure, rng: Rng) -> Any:
    return made.state(float(rng.integers(-3, 4)), planned=rng.choice([-1.0, 0.0, 1.0], rng.integers(0, 5)).tolist())


def _direction(made: Direction, rng: Rng) -> Any:
    return made.state(float(rng.integers(-1, 2)), rng.choice([-1.0, 0.0, 1.0], rng.integers(0, 5)).tolist())


def _capacity(made: CapacityPlan, rng: Rng) -> Any:
    planned = rng.choice([-1.0, 0.0, 1.0], rng.integers(0, 5)).tolist()
    return made.state(int(rng.integers(1, 8)), [1], [1], planned)


def _intervention(made: Intervention, rng: Rng) -> Any:
    given, planned = [float(rng.integers(0, 2))], rng.choice([0.0, 1.0], 3).tolist()
    return made.state(float(rng.integers(0, 5)), given=given, planned=planned)


def _storage(made: Storage, rng: Rng) -> Any:
    return made.state(float(rng.integers(0, 5)), planned=rng.choice([-1.0, 0.0, 1.0], rng.integers(0, 5)).tolist())


def _inventory(made: Any, rng: Rng) -> Any:
    return made.state(float(rng.integers(0, 12)))


# task: how a state is drawn, mean and deviation of the outcomes; another task starts as it says itself
CASES: dict[str, tuple[Any, float, float]] = {
    "capacity_plan": (_capacity, 5.0, 3.0),
    "delayed_exposure": (_exposure, 0.0, 1.0),
    "direction": (_direction, 0.0, 1.0),
    "intervention": (_intervention, 2.0, 3.0),
    "lead_time_inventory": (_inventory, 5.0, 3.0),
    "storage": (_storage, 5.0, 3.0),
}


def drawn(name: str, windows: int) -> tuple[Any, list[Any], Any]:
    fit = TASKS[name].kind().fit()
    draw, mean, deviation = CASES.get(name, (lambda made, rng: made.state(**fit.start), fit.unit, fit.unit))
    rng = np.random.default_rng([5, *map(ord, name)])
    instances = TASKS[name].kind.instances()
    made = instances.get("fresh" if name == "lead_time_inventory" else "steady", next(iter(instances.values())))
    return made, [draw(made, rng) for _ in range(windows)], rng.normal(mean, deviation, (windows, 4, 5))


@pytest.mark.compiled
@pytest.mark.parametrize("name", TASKS)
def test_compiled_rules_give_the_same_bytes(name: str) -> None:
    """A kernel of the rules alone takes a second to compile, a search with them ten."""
    made, states, outcomes = drawn(name, 200)
    task = made.task()
    layout = task.layout(states[0])
    plain, fast = (Simulator(task, layout, engine=engine) for engine in ("python", "compiled"))
    assert (plain.engine, fast.engine) == ("python", "compiled")
    rows, rng = np.array([layout.flatten(s, "state") for s in states]), np.random.default_rng(3)
    moved = 0
    for h in range(outcomes.shape[2]):
        mask = plain.mask(rows)
        assert mask.tobytes() == fast.mask(rows).tobytes()
        index = np.array([rng.choice(np.flatnonzero(row)) if row.any() else -1 for row in mask])
        one, other = (s.advance(rows, index, np.ascontiguousarray(outcomes[:, 0, h, None])) for s in (plain, fast))
        for field in one._fields:
            assert getattr(one, field).tobytes() == getattr(other, field).tobytes(), field
        rows, moved = one.states, moved + int((index >= 0).sum())
    assert moved > 200


def same_search(name: str, windows: int) -> None:
    made, states, outcomes = drawn(name, windows)
    policy = uc.UCBeam(depth=5, width=6, top_k=3, risk=0.25)
    plain, fast = (
        uc.search_panel(made.task(), states, uc.Trace.from_members(outcomes), policy, engine=engine)
        for engine in ("python", "compiled")
    )
    assert fast.engine == "compiled"
    for field in plain.outputs._fields:
        assert getattr(plain.outputs, field).tobytes() == getattr(fast.outputs, field).tobytes(), field


@pytest.mark.parametrize("name", TASKS)
def test_kernels_as_python_give_the_same_bytes(name: str) -> None:
    same_search(name, 20)


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_compiled_kernels_give_the_same_bytes(name: str) -> None:
    same_search(name, 200)
