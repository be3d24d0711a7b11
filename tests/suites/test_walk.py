"""Receding horizon: no look-ahead, no broken rules, the figures of the classics."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.errors import InputError
from ucsearch.forecast import RidgePaths
from ucsearch.lab.comparators import CEM, Greedy
from ucsearch.lab.data.embedded import sample_demand
from ucsearch.lab.suites.kinds.series import Stretch, choose, is_design
from ucsearch.lab.suites.kinds.walkforward.rows import credits_of
from ucsearch.replay.choosers import Certified, Searched
from ucsearch.replay.panel import Panel, make_panel
from ucsearch.replay.roster import ordering_rules
from ucsearch.replay.walk import Choice, Seen, walk
from ucsearch.tasks import DelayedExposure, LeadTimeInventory
from ucsearch.tasks.base import Binding, bind

INVENTORY = dict(name="lead_time_inventory", lead_time=1, holding=1.0, shortage=19.0, spoilage=0.5)
EXPOSURE = dict(name="delayed_exposure", delay=1, changes=(-1.0, 0.0, 1.0), capacity=2.0, cost=0.02)
MODEL = RidgePaths(paths=12, floor=0.0)


def stretches(count: int = 3, decisions: int = 5, change: float = 0.0) -> list[Stretch]:
    out = []
    for s in sample_demand(count, 120).series:
        y = np.array(s.y[:110]) / s.y[:90].mean()
        y[90 + decisions - 1 :] += change  # what comes after the last decision's forecast
        out.append(Stretch("sample", s.id, 0, 90, decisions, s.seasonal_period, y, 1.0))
    return out


def inventory(**changes: object) -> Binding:
    made = bind({**INVENTORY, **changes}, [-1e6, 0.0, 1.5, 3.0], 2)
    assert isinstance(made.config, LeadTimeInventory)
    return made


def panel_of(binding: Binding, change: float = 0.0) -> Panel:
    return make_panel(stretches(change=change), binding, MODEL, horizon=4, key=5)


def test_forecasts_and_decisions_do_not_see_the_future() -> None:
    binding = inventory()
    plain, changed = panel_of(binding), panel_of(binding, 1000.0)
    np.testing.assert_array_equal(plain.members, changed.members)
    policy = uc.Exact(depth=3, risk=0.5, spread="std")
    a, b = (walk(p, Certified(binding.task, policy, proof=uc.Proof(kind="bound"))) for p in (plain, changed))
    np.testing.assert_array_equal(a.actions, b.actions)
    assert not np.array_equal(plain.realised[:, -1], changed.realised[:, -1])
    assert not np.array_equal(a.rewards, b.rewards)


def test_a_window_does_not_depend_on_its_neighbours() -> None:
    binding = inventory()
    alone = make_panel(stretches()[1:2], binding, MODEL, horizon=4, key=5)
    np.testing.assert_array_equal(alone.members[0], panel_of(binding).members[1])


def test_certified_walk_counts_its_proofs_and_activity_apart() -> None:
    binding = inventory()
    panel = panel_of(binding)
    found = walk(
        panel, Certified(binding.task, uc.Exact(depth=3, risk=0.5, spread="std"), proof=uc.Proof(kind="bound"))
    )
    assert (found.certificate["passed"] == 1.0).all()
    assert (found.oracle_nodes == 0).all()  # an exact policy is its own proof
    assert (found.activity_nodes > 0).all()
    assert (found.violations == 0).all()
    beam = Certified(
        binding.task, uc.UCBeam(depth=3, width=2, top_k=2, risk=0.5, spread="std"), proof=uc.Proof(kind="bound")
    )
    assert (walk(panel, beam).oracle_nodes > 0).all()


def test_walk_replays_by_the_task_functions() -> None:
    """The simulator's states and rewards against the plain task, step by step."""
    binding = inventory()
    panel = panel_of(binding)
    found = walk(panel, Searched(binding.task, uc.Exact(depth=3, risk=0.5, spread="std")))
    task = binding.task
    for n, state in enumerate(binding.start(panel.trace(0))):
        for t in range(panel.decisions):
            _, params = binding.config.scaled(panel.trace(t), binding.multiples, binding.arrivals)
            p = params._replace(grid=(), level_mean=0.0, level_spread=0.0, cap_mean=0.0, cap_spread=0.0)
            action, y = float(found.actions[n, t]), float(panel.realised[n, t])
            assert task.feasible(state, action, p)
            assert task.reward(state, action, y, p) == found.rewards[n, t]
            state = task.step(state, action, y, p)


def test_a_forbidden_choice_is_counted_and_replaced() -> None:
    binding = inventory(capacity=1e-6)

    def stubborn(seen: Seen) -> Choice:
        return Choice.at(seen, np.full(len(seen.rows), 7, np.int64))

    found = walk(panel_of(inventory()), stubborn)
    assert (found.violations == 0).all()
    small = walk(panel_of(binding), stubborn)
    assert (small.violations == small.actions.shape[1]).all()
    assert (small.actions == 0.0).all()  # the fallback: nothing can be ordered


def test_hindsight_is_not_worse_than_the_forecast() -> None:
    binding = inventory()
    panel = panel_of(binding)
    exact = uc.Exact(depth=3, risk=0.0, spread="std")
    told = walk(panel, Searched(binding.task, exact, foresees=True))
    guessed = walk(panel, Searched(binding.task, exact))
    assert (told.rewards.sum(axis=1) >= guessed.rewards.sum(axis=1)).all()


ROSTER = ("base-stock", "(s,S)", "(s,nQ)", "newsvendor", "newsvendor, free", "rolling quantile")


@pytest.mark.parametrize("name", ROSTER)
def test_classics_order_towards_their_level(name: str) -> None:
    binding = inventory()
    panel = panel_of(binding)
    entry = next(e for e in ordering_rules(panel) if e.name == name)
    found = walk(panel, entry.make())
    nothing = walk(panel, Searched(binding.task, Greedy()))
    assert found.rewards.sum() > nothing.rewards.sum()  # greedy never orders: an order pays off later
    assert (found.figures["fill_rate"] <= 1.0).all()
    assert (found.figures["fill_rate"] > nothing.figures["fill_rate"]).all()


def test_warm_starts_find_their_actions_by_value() -> None:
    """The same grid under other indices must give the same warm plans."""
    binding = inventory()
    panel = panel_of(binding)
    task, trace = binding.task, panel.trace(0)
    actions, params = binding.grid(trace)
    assert actions is not None
    states = binding.start(trace)
    policy = CEM(depth=3, samples=12, iterations=2, risk=0.5, seed=3)
    plan = uc.search_panel(task, states, trace, policy, params=params, actions=actions)
    warm = policy.warmed(plan, states, trace, actions).warm
    by_index = policy.warmed(plan, states, trace).warm
    assert warm is not None
    assert by_index is not None
    assert warm.plans == by_index.plans
    moved = np.concatenate([actions[:, 1:], actions[:, -1:] + 1.0], axis=1)
    shifted = policy.warmed(plan, states, trace, moved).warm
    assert shifted is not None
    assert shifted.plans != warm.plans
    with pytest.raises(InputError, match="actions"):
        policy.warmed(plan, states, trace, moved[:1])


def test_exposure_outcomes_are_changes_of_the_series() -> None:
    binding = bind(EXPOSURE, None)
    assert isinstance(binding.config, DelayedExposure)
    panel = panel_of(binding)
    one = panel.stretches[0]
    np.testing.assert_array_equal(panel.realised[0], np.diff(one.y)[one.start - 1 : one.start - 1 + one.decisions])
    found = walk(panel, Searched(binding.task, uc.Exact(depth=3, risk=0.1, spread="variance")))
    assert (found.figures["exposure"] <= 2.0).all()


def test_credits_need_a_gain_over_the_reward_only_action() -> None:
    binding = inventory()
    panel = panel_of(binding)
    kept: list[dict[str, np.ndarray]] = []
    policy = uc.ConstrainedBeam(depth=3, width=8, risk=0.5, spread="std")
    walk(
        panel,
        Certified(binding.task, policy, proof=uc.Proof(kind="oracle"), keep=lambda t, p: kept.append(credits_of(p))),
    )
    assert any((c["risk_reduction"] > 0.0).any() for c in kept)
    calm: list[dict[str, np.ndarray]] = []
    none = dataclasses.replace(policy, risk=0.0)
    walk(
        panel,
        Certified(binding.task, none, proof=uc.Proof(kind="oracle"), keep=lambda t, p: calm.append(credits_of(p))),
    )
    assert all((c["risk_reduction"] == 0.0).all() and (c["delayed_credit"] == 0.0).all() for c in calm)


def test_series_are_chosen_by_length_and_hash_alone() -> None:
    series = sample_demand(40, 120).series
    chosen = choose(series, 5, 100, "evaluation", "salt")
    assert chosen == choose(tuple(reversed(series)), 5, 100, "evaluation", "salt")
    assert [s.id for s in chosen] != [s.id for s in choose(series, 5, 100, "evaluation", "other")]
    assert not any(is_design(s.id) for s in chosen)
    assert all(is_design(s.id) for s in choose(series, 2, 100, "design", "salt"))
    with pytest.raises(uc.UCSearchError, match="0 series of at least 500"):
        choose(series, 5, 500, "evaluation", "salt")


def test_unknown_tasks_and_missing_grids_are_refused() -> None:
    with pytest.raises(InputError, match=r"task\.name"):
        bind({"name": "nothing"}, None)
    with pytest.raises(InputError, match="multiples"):
        bind(INVENTORY, None)
