"""Storage as a programme: ramps are kept, and integers forbid to buy and sell at once."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from ucsearch.replay.linear import has_solver, storage_programme
from ucsearch.tasks import Storage

pytestmark = pytest.mark.skipif(not has_solver(), reason="needs HiGHS")


def earned(config: Storage, price: list[float], powers: tuple[float, ...], level: float) -> float | None:
    """By the task's own rules; None where they forbid it."""
    task, s, total = config.task(), config.state(level), 0.0
    for a, y in zip(powers, price, strict=True):
        if not task.feasible(s, a, config.params()):
            return None
        total += task.reward(s, a, y, config.params())
        s = task.step(s, a, y, config.params())
    return total


@pytest.mark.parametrize("ramp", [None, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("whole", [False, True])
def test_a_programme_earns_what_the_best_plan_on_a_fine_grid_earns(ramp: float | None, whole: bool) -> None:
    grid = tuple(np.linspace(-1.0, 1.0, 9).tolist())
    config = Storage(capacity=2.0, powers=grid, charge_efficiency=1.0, discharge_efficiency=1.0, ramp=ramp, wear=0.1)
    price = [1.0, 3.0, 0.5, 4.0]
    best = max(v for plan in product(grid, repeat=4) if (v := earned(config, price, plan, 1.0)) is not None)
    powers, value = storage_programme(np.array(price), config.state(1.0), config.params(), whole=whole)
    assert value == pytest.approx(best, abs=1e-6)  # with these limits a best plan lies on the grid
    found = earned(config, price, tuple(np.round(powers, 6).tolist()), 1.0)
    assert found == pytest.approx(best, abs=1e-5)
    if ramp is not None:
        assert (np.abs(np.diff([0.0, *powers])) <= ramp + 1e-6).all()


def test_at_negative_prices_only_the_linear_programme_burns_energy() -> None:
    config = Storage(capacity=1.0, powers=(-1.0, 0.0, 1.0), charge_efficiency=0.5, discharge_efficiency=0.5)
    price = np.full(4, -1.0)
    _, loose = storage_programme(price, config.state(1.0), config.params())
    _, strict = storage_programme(price, config.state(1.0), config.params(), whole=True)
    assert loose > strict + 0.1  # buying and selling at once is paid for wasting
