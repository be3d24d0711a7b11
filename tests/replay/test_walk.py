"""Episodes are walked by the task's own rules, nobody sees what comes, and intervals are paired by series."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import sizes
from ucsearch.forecast.base import forecast_paths
from ucsearch.forecast.ridge import RidgePaths
from ucsearch.forecast.streams import series_stream
from ucsearch.lab.comparators import CEM
from ucsearch.lab.data.embedded import sample_demand
from ucsearch.lab.learned.base import collect
from ucsearch.replay.choosers import Learned, Searched
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.roster import Budget, ordering_rules, roster
from ucsearch.replay.statistics import by_series, paired
from ucsearch.replay.walk import Choice, Walk, walk
from ucsearch.tasks import TASKS, LeadTimeInventory

PYTHON = uc.Run(engine="python", threads=1)


class Tank(NamedTuple):
    level: float


def tank_feasible(s: Tank, a: float, p: None) -> bool:
    return 0.0 <= s.level + a <= 4.0


def tank_step(s: Tank, a: float, y: float, p: None) -> Tank:
    return Tank(s.level + a)


def tank_reward(s: Tank, a: float, y: float, p: None) -> float:
    return -a * y


def tank_terminal(s: Tank, p: None) -> float:
    return 0.5 * s.level


tank = uc.Task(
    name="tank", state=Tank, actions=[-1.0, 0.0, 1.0], feasible=tank_feasible, step=tank_step, reward=tank_reward,
    fallback=lambda s, p: 0.0, terminal=tank_terminal,
)  # fmt: skip
# Nothing is allowed once the level is 2.
trap = replace(tank, name="trap", feasible=lambda s, a, p: s.level < 2.0 and s.level + a >= 0.0, terminal=None)


def panel_of(
    task: uc.Task, start: Any, y: np.ndarray, *, steps: int = 3, horizon: int = 2, config: Any = None
) -> Panel:
    """The last `steps` periods of every series, with paths forecast from what came before each decision."""
    model = RidgePaths(paths=5 if config is None else 30, floor=-math.inf if config is None else 0.0)
    begin = y.shape[1] - steps
    marks = np.arange(begin - 1, begin - 1 + steps, dtype=np.int64)
    members = [forecast_paths(model, row, marks, horizon, 1, series_stream(7, f"s{i}")) for i, row in enumerate(y)]
    ahead = np.minimum(marks[:, None] + 1 + np.arange(horizon), y.shape[1] - 1)
    layout = task.layout(start)
    return Panel(
        task, config, layout, np.tile(np.array(layout.flatten(start, "start")), (len(y), 1)),
        tuple(Stretch("", f"s{i}", 0, begin, steps, 1, row, 1.0) for i, row in enumerate(y)), np.stack(members),
        y[:, begin:], np.stack([row[ahead] for row in y]), tuple(row[:begin] for row in y), model.name,
    )  # fmt: skip


def tank_panel(task: uc.Task, y: np.ndarray, steps: int = 3) -> Panel:
    return panel_of(task, Tank(1.0), y, steps=steps)


def ordering_panel(steps: int, horizon: int) -> Panel:
    found = LeadTimeInventory(order_sizes=tuple(20.0 * k for k in range(9)))
    y = np.stack([one.train[-80:] for one in sample_demand(count=3).series])
    start = found.state(0.0, (0.0,) * found.lead_time)
    return panel_of(found.task(), start, y, steps=steps, horizon=horizon, config=found)


def always(index: int, expansions: int = 0) -> Any:
    return lambda seen: Choice.at(seen, np.full(len(seen.rows), index), np.full(len(seen.rows), expansions))


def walked(panel: Panel, chooser: Any, **more: Any) -> Walk:
    return walk(panel, chooser, engine="python", stuck="keep", **more)


def prices(count: int = 3, length: int = 60) -> np.ndarray:
    return np.random.default_rng(3).normal(2.0, 1.0, (count, length))


def ticking() -> Any:
    """A clock whose every look is a second later."""
    now = iter(range(10**9))
    return lambda: float(next(now))


# ---------------------------------------------------------------- walking


def test_a_walk_pays_the_real_outcomes_and_the_final_value() -> None:
    y = prices()
    up = walked(tank_panel(tank, y), always(2, 4), clock=ticking())
    expected = -y[:, -3:]
    expected[:, -1] += 0.5 * 4.0
    assert up.rewards == pytest.approx(expected)
    assert up.expansions.tolist() == [12] * 3
    assert up.seconds == 3.0  # a second per decision of the panel, nothing else is timed
    assert not up.violations.any()


def test_what_the_rules_forbid_is_counted_and_replaced() -> None:
    panel = tank_panel(tank, prices(), steps=5)
    done = walked(panel, always(0))
    # The tank holds 1: the first step down is allowed, the four after it are not.
    assert done.violations.tolist() == done.fallbacks.tolist() == [4] * 3
    assert done.actions.tolist() == [[-1.0, 0.0, 0.0, 0.0, 0.0]] * 3
    none = walked(panel, always(-1))
    assert none.violations.tolist() == [0] * 3
    assert none.fallbacks.tolist() == [5] * 3
    wild = walked(panel, always(99))
    assert wild.violations.tolist() == [5] * 3


def test_a_dead_end_is_kept_where_asked_for_and_an_error_otherwise() -> None:
    panel = tank_panel(trap, prices(4))

    def choose(seen: Any) -> Choice:
        return Choice.at(seen, np.where(seen.mask.any(axis=1), [1, 2, 1, 1], -1))

    assert walked(panel, choose).stuck.tolist() == [False, True, False, False]
    with pytest.raises(uc.TaskError, match="nor the fallback"):
        walk(panel, choose, engine="python")


def test_warm_starts_are_forgotten_when_a_walk_begins() -> None:
    panel = tank_panel(tank, prices())
    chooser = Searched(tank, CEM(depth=2, samples=4, iterations=2, seed=5), PYTHON)
    first, again = walked(panel, chooser), walked(panel, chooser)
    assert first.actions.tobytes() == again.actions.tobytes()


# ---------------------------------------------------------------- intervals


def test_windows_of_a_series_count_once() -> None:
    values = np.array([1.0, 3.0, 10.0, 20.0])
    assert by_series(values, ["b", "b", "a", "c"]).tolist() == [2.0, 10.0, 20.0]
    base = np.zeros(4)
    once = paired(values, base, ["b", "b", "a", "c"], seed=1, name="x")
    assert once.mean == pytest.approx(32.0 / 3.0)
    apart = paired(values, base, ["b", "d", "a", "c"], seed=1, name="x")
    assert apart.mean == pytest.approx(8.5)


def test_the_interval_is_paired_and_has_a_side() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(0.0, 100.0, 20)  # what a window offers, the same for both
    series = [f"s{i}" for i in range(20)]
    found = paired(hard + 1.0 + rng.normal(0.0, 0.1, 20), hard, series, seed=1, name="x")
    assert 0.8 < found.low < 1.0 < found.high < 1.2
    assert found.side == 1
    worse = paired(hard - 1.0 + rng.normal(0.0, 0.1, 20), hard, series, seed=1, name="x")
    assert worse.side == -1
    assert paired(hard, hard, series, seed=1, name="x") == (0.0, 0.0, 0.0)
    few = paired(np.ones(2), np.zeros(2), ["a", "b"], seed=1, name="x")
    assert (few.low, few.high, few.side) == (-math.inf, math.inf, 0)


# ---------------------------------------------------------------- who takes part


def test_everybody_takes_part_on_inventory_within_the_budget_and_the_rules() -> None:
    panel, budget = ordering_panel(2, 3), Budget(2, 3, 3, 0.25, "mean")
    everybody = roster(panel, budget, seeds=1, rng=np.random.default_rng(1), how=PYTHON)
    assert [e.name for e in everybody.values() if e.family == "classic"] == [
        "planning on the mean", "planning on a quantile", "newsvendor", "newsvendor, free", "base-stock",
        "capped base-stock", "(s,S)", "(s,S) by formula", "(s,nQ)", "rolling quantile", "constant order", "myopic",
    ]  # fmt: skip
    assert budget.expansions == 3 * (1 + 3 * 1)
    for entry in everybody.values():
        done = walked(panel, entry.choosers()[0]())
        assert not done.violations.any(), entry.name
        if entry.family == "classic":
            assert not done.fallbacks.any(), entry.name
        if entry.name in ("random shooting", "risk-random", "cem", "mppi", "uc-beam", "mcts"):
            assert 0 < (done.expansions / panel.decisions).max() <= budget.expansions, entry.name


def test_the_cap_of_capped_base_stock_is_kept() -> None:
    panel = ordering_panel(3, 3)
    trace, grid = panel.trace(0), panel.task.action_array
    orders = {e.name: walked(panel, e.make()).actions[:, 0] for e in ordering_rules(panel, how=PYTHON)}
    members = np.maximum(trace.members[..., 0], 0.0)
    for n in range(3):
        level = np.sort(members[n].sum(axis=1))[26]  # the 27th of 30 members: 9 / (9 + 1)
        cap = np.sort(members[n, :, 2])[26]
        assert orders["base-stock"][n] == grid[np.argmin(np.abs(grid - level))]
        assert orders["capped base-stock"][n] == grid[np.argmin(np.abs(grid - min(level, cap)))]
        assert orders["constant order"][n] == grid[np.argmin(np.abs(grid - panel.history[n].mean()))]
    assert (orders["capped base-stock"] < orders["base-stock"]).any()


@pytest.mark.parametrize("steps", sizes(200, None))
def test_learned_policies_walk_too(steps: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gymnasium")
    from ucsearch.lab.learned import boundary

    if steps is not None:
        monkeypatch.setattr(boundary, "collect", lambda env, rounds, rng: collect(env, rounds // 20, rng))
        monkeypatch.setattr(boundary, "train_cql", partial(boundary.train_cql, steps=steps))
    exposure = TASKS["delayed_exposure"].kind()
    start = exposure.state(**exposure.fit().start)
    y = np.abs(np.random.default_rng(5).normal(1.0, 0.3, (3, 120)))
    past, panel = (panel_of(exposure.task(), start, y[:, a:b], steps=n) for a, b, n in ((0, 110, 40), (20, 120, 3)))
    features = boundary.forecast_features(past.members, past.delay)
    for method in ("fqi", "cql"):
        policy = boundary.train_offline(
            method, exposure.task(), start, list(past.realised), list(features), length=3, seed=1, engine="python"
        )
        chooser = Learned(policy, lambda trace: boundary.forecast_features(trace.members[..., 0], 1))
        done = walked(panel, chooser)
        assert not done.violations.any()
        assert not done.fallbacks.any()
